"""Share groups on one broker: its share coordinator, and the way to those of other brokers."""
