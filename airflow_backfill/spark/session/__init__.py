"""The Spark session: its settings, its failures, its locks."""
