"""Applications: what is started, planned, answered and announced."""
