"""The target: reduces changes to one per key and applies them in one commit."""
