"""Bringing a log back from its directory: what a crash left is checked, cut or rebuilt, what was damaged is told.

Enters: the files of one partition. Leaves: segments whose batches are whole, with indexes, epochs and producers that
fit. Deliberately absent: what another replica could give (`kraft/replication/damaged_replicas.py`).
"""
