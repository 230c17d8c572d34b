"""What a build tells without being asked: metrics, lineage, warnings."""
