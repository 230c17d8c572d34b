"""A row as a hash, and rows as a digest: what a proof compares."""
