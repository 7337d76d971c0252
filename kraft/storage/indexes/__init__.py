"""The indexes beside a segment's `.log`: by offset, by time, and of its aborted transactions.

Enters: entries in ascending order. Leaves: the nearest entry at or before what is looked for. Deliberately absent: the
segment, which owns them and makes them anew where they are in doubt (`recovery`).
"""
