"""Incremental fetch sessions (KIP-227), on both sides, and which partitions of a session the broker must check for a
Fetch.

Enters: the partitions that a Fetch names or forgets. Leaves: the partitions to check and to include in the response.
Deliberately absent: the wire (`kraft/handlers`), and the fetchers (`fetchers`).
"""
