"""Replicas of partitions on one broker: who leads, what is in sync, what clients may read, and who waits for it.

Enters: appends and reads from handlers, fetches of followers, changed partitions from the metadata publisher.
Leaves: log appends, answers, wake-ups, AlterPartition proposals. Deliberately absent: files (kraft/storage) and
elections (the controller's).
"""
