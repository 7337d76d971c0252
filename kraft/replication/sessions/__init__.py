"""Incremental fetch sessions (KIP-227): both ends, and which partitions of a session the one who is asked looks at.

Enters: the partitions that a Fetch names or forgets. Leaves: those to look at and to tell of. Deliberately absent: the
wire (`kraft/handlers`), and the fetchers (`fetchers`).
"""
