"""What waits for a build."""
