"""How rows reach the target: one module for each strategy, and the log that three of them share."""
