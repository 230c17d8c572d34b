"""What waits for a build in the triggerer: stateless, and without a JVM."""
