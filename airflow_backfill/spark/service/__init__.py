"""The Spark application that serves requests for other applications."""
