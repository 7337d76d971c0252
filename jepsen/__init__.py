"""Proof on real processes: a cluster that is torn apart on one machine, clients that keep on using it, and a judge
of what they saw.

Five nodes, each a process in a network namespace of its own with a disk of its own (`db`); faults on what the kernel
gives (`nemesis`); unmodified Kafka clients (`workloads`); everything that happened in one file (`history`), which
`checkers` judge, during the run or years later. `python -m jepsen` lists the commands. The same runs against Apache
Kafka with TARGET=kafka, which shows that the judge is fair.
"""
