"""How rows reach the target: one module for each strategy, and the log, which three of them share."""
