"""What is committed or kept: the spec, the plan, records, announcements, certificates."""
