"""What is committed or kept: the spec, the plan, positions, records, announcements."""
