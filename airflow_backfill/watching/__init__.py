"""What waiting tasks look at: the same for sensors, operators and their triggers, without a JVM."""
