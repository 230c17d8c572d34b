"""A local Kafka broker, and operations on its topics."""
