"""What is about Delta as a source, without Spark: rows that a commit changes, ways to read them."""
