"""Delta as a source, without Spark: which rows a commit changes, and the cheapest way to read them."""
