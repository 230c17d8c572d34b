"""A service runs the applications of many builds in one Spark application."""
