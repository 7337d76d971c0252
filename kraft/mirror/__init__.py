"""Mirrors topics of one cluster in another: the copies, their progress, and the offsets of groups at the target.

This package has the copying of `kraft mirror` (one transaction at a time, so that each record is copied once), and the
pure parts that it shares with Spark's mirror. Input: two clusters, and names or a pattern. Output: records, topics and
offsets at the target, and the mirror's own state topic with its progress.
"""
