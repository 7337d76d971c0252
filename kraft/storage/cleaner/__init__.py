"""Compaction: of each key only the last record stays (log.cleanup.policy=compact).

What enters: logs with what of them is dirty, limits, the time. What leaves: the log to clean next, a `CleaningOrder`,
clean copies of groups of segments that take their places.

`log_to_clean` decides, `cleaner_manager` remembers, `log_cleaner` begins a cleaning and puts copies in their places,
`segment_cleaner` computes them, in a process of its own. Deliberately absent: tasks and processes
(`kraft.replication.logs.cleaner_threads`).
"""
