"""How rows reach the target: one module for each strategy, and the log, which three strategies share."""
