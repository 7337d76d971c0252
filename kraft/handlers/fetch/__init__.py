"""Fetch, from the request to a response of file ranges, for consumers and for followers with sessions.

Enters: FetchRequest. Leaves: a response whose records are ranges of files. Deliberately absent: sessions
(`kraft/replication/sessions`), waiting for partitions (`purgatory.py`), the remote tier (`kraft/replication/tiers`).
"""
