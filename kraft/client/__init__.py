"""The small Kafka client that brokers, the kraft command, tests and the simulator use. Enters: request messages.
Leaves: response messages, or typed errors."""
