"""Streams groups (KIP-1071): the members of a Kafka Streams application, and the tasks that each runs.

A task is one partition of a subtopology. The first member brings the topology. The coordinator checks its topics
(`configured_topology.py`), names the internal topics that are missing, and assigns tasks (`sticky_assignor.py`). A
member gets a task only after its former owner has given it up (`reconciliation.py`).

Input: a heartbeat (`heartbeat.py`), a deadline (`deadlines.py`), or a record of the log. Output: records and a
response. `topology.py`, `tasks.py`, `member.py` and `streams_group.py` are the state; `records.py` has the record types
and their replay.

Deliberately absent: warmup tasks are stored and reconciled but never assigned, as in Kafka 4.4. Creation of internal
topics (`kraft/handlers`), and descriptions of topologies.
"""
