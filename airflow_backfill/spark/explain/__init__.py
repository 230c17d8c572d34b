"""Answers questions of people about a build with Spark. Writes nothing."""
