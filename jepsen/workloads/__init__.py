"""The clients that use the cluster during a run: unmodified clients in threads of the harness, each recording what it
did and saw.

`workload` has what all workloads share; the other modules have the clients. librdkafka (confluent-kafka) and aiokafka,
which share no code, take part in every run.
"""
