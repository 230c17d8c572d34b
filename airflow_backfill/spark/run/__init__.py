"""The Spark applications: command line, planner, interpreter of effects, announcements."""
