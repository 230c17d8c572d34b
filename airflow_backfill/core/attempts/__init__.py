"""How a task becomes barriers: goals, the protocol of an attempt, planning, recovery."""
