"""`make bench`: kraft and Apache Kafka 4.4.0 measured side by side in one run.

Both systems run at the same time and take their rounds in turn, so that neither has the machine, the page cache or
the hour to itself. Before each round as many bytes as it will write are written and deleted again: a fresh page
costs many times a recycled one. Latency is taken after throughput, when both are warm.
"""
