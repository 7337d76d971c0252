"""What clients do while the cluster is torn apart: unmodified clients in threads of the harness, each writing down
what it did and saw.

`workload` is what all have in common; `plain` makes workloads from producers, readers and group members; the others
have a purpose of their own. librdkafka (confluent-kafka) and aiokafka, which share no code, take part in every run.
"""
