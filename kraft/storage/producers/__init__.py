"""Producer state of a partition: idempotence, open transactions, their verification, and snapshots.

Input: batches that were appended or read back. Output: duplicates and fencing, the first unstable offset, `.snapshot`
files. Deliberately absent: the transaction coordinator.
"""
