"""The conditions that sensors, operators and their triggers wait for, read without a JVM."""
