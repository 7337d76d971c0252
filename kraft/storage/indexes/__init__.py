"""The indexes of a segment: by offset, by time, and of aborted transactions.

Input: entries in ascending order. Output: the nearest entry at or before a target. Deliberately absent: the segment,
which owns the indexes and rebuilds them when they are suspect (`recovery`).
"""
