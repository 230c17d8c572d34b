"""How a task commits barriers: goals, the protocol of an attempt, planning, recovery."""
