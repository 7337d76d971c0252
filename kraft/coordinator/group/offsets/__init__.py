"""Committed offsets of groups of either kind, with and without transactions. Pure.

Input: OffsetCommit, TxnOffsetCommit, OffsetFetch, markers. Output: records, responses, pending offsets. Deliberately
absent: who may commit, which the group decides, and expiry (`group/deletion.py`).
"""
