"""Links from a task to its table and its Spark application."""
