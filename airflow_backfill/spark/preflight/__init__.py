"""What has to be right before a build may begin."""
