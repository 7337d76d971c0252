"""Three nodes beside three nodes of Apache Kafka: throughput, latency and memory of replicated partitions, and how
long a fail-over takes."""
