"""For tests of DAGs: the applications of a build without Spark and Java."""
