"""Differential vectors: what Apache Kafka answers to scripted requests, recorded field by field, so that kraft's
answers can be compared without a JVM.

`cases/` says what is asked. `recorded/*.json` is what Apache Kafka 4.4.0 answered, with ids, times and free texts
masked. `differences.py` lists where kraft answers otherwise on purpose, and why.

    python -m tests.vectors record                                      # an empty Apache Kafka, started for it
    python -m tests.vectors compare                                     # an empty node of ours, started for it
    python -m tests.vectors compare 127.0.0.1:9092 127.0.0.1:9093       # any empty cluster of one: clients,
    controller

`denied/` asks as principals that lack rights. It has a cluster of its own, and what Apache Kafka answered beside it.

Each case runs once for every version of its API that was recorded, over plain sockets, with names of its own.
Targets must be empty: the names are fixed.
"""
