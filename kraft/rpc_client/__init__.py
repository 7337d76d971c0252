"""The small Kafka client that brokers, the kraft command, tests and the simulator use. Input: request messages. Output:
response messages, or typed errors."""
