"""What a partition remembers of its producers: idempotence, open transactions, their verification, and snapshots.

Enters: batches that were appended or read back. Leaves: duplicates and fences, the first unstable offset, `.snapshot`
files. Deliberately absent: the transaction coordinator.
"""
