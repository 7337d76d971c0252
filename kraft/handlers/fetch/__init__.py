"""Fetch, from the request to file ranges in the answer: consumers, and followers in their sessions.

Enters: FetchRequest. Leaves: an answer whose records are parts of files. Deliberately absent: sessions
(`kraft/replication/sessions`), waiting for partitions (`purgatory.py`), the remote tier (`kraft/replication/tiers`).
"""
