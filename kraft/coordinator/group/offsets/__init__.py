"""Committed offsets of groups of either kind, in and out of transactions. Pure.

Enters: OffsetCommit, TxnOffsetCommit, OffsetFetch, markers. Leaves: records, answers, offsets that wait for a marker.
Deliberately absent: whose commits a group takes, which the group decides, and expiry (`group/deletion.py`).
"""
