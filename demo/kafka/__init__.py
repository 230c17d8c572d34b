"""A Kafka of this machine's own, and what one does to a topic."""
