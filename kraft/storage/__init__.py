"""The storage engine: partition logs in Kafka's files, under Kafka's names.

What enters: record batches as bytes, offsets, epochs, the time. What leaves: slices of files to send, offsets, lists
of files to delete later. Everything is synchronous, through the world's `FileSystem`; work that may wait for a disk
(large appends, fsync) is also offered as a job of three steps (prepare on the loop, run in a thread, finish on the
loop).

`log_manager` owns the log directories and opens `unified_log`s; a log is a list of `log_segment`s, each a `.log`
with its `indexes`; `recovery` brings a log back after a crash; `log_validator` and `retention` decide and touch
nothing. Deliberately absent: replication, purgatory, when to run what (`kraft.replication`, `kraft.server`), and any
task, lock or clock.
"""
