"""Triggers that wait for a build: stateless, and without a JVM."""
