"""Loads a log from its directory after a shutdown or crash: checks, truncates or rebuilds what a crash left, and
reports damage.

Input: the files of one partition. Output: segments of whole batches with matching indexes, epochs and producers.
Deliberately absent: recovery from another replica (`kraft/replication/damaged_replicas.py`).
"""
