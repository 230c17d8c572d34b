"""The proof that target and transformed source are equal, and the repair."""
