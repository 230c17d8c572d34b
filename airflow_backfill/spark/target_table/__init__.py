"""The target: changes reduced to one per key, and applied in one commit."""
