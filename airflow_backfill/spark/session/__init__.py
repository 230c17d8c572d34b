"""The Spark session: settings, failures, locks."""
