"""Compaction: keep only the last record of each key (log.cleanup.policy=compact).

Input: logs with their dirty ranges, limits, the time. Output: the log to clean next, a `CleaningOrder`, and cleaned
copies of groups of segments that replace the originals.

`log_to_clean` selects a log, `cleaner_manager` keeps the state, `log_cleaner` starts a cleaning and swaps the copies
in, `segment_cleaner` computes the copies in its own process. Deliberately absent: tasks and processes
(`kraft.replication.logs.cleaner_threads`).
"""
