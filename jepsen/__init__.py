"""Tests on real processes: a cluster on one machine under faults, clients that keep on using it, and a check of
everything they saw.

The cluster has five nodes, each a process in its own network namespace with its own disk (`db`). Faults use the means
of the kernel (`nemesis`). The clients are unmodified Kafka clients (`workloads`). Every event is in one file
(`history`), which `checker` and `judges` can judge at any later time. `python -m jepsen` lists the commands.
TARGET=kafka runs the same against Apache Kafka, which shows that the judge is fair.
"""
