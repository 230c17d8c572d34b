"""Sensors that wait for a build."""
