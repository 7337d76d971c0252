"""Spark reads a replicated topic while the cluster under it, and Spark itself, are being killed; then everything is counted.

Three nodes in three processes on loopback (RF 3, min.insync.replicas 2), an idempotent writer of numbered records, and one Spark driver that runs, for
the source without jars and for Spark's own connector: a stream into Parquet, a stream into foreachBatch keyed by batch id, a stream back into the log,
and batch reads again and again. A round kills the data leader, the active controller, Python workers and the driver, and adds a partition; then lets
Spark read to the end.

`job.py` is the driver, `processes.py` starts and kills it, `round.py` is a round, `checks.py` (pure) judges. A check knows what was acknowledged, what was
sent, and what each sink holds. Exactly once is promised by Parquet, by foreachBatch keyed by batch id and by the sink without jars; Spark's own Kafka sink
promises at least once, so its duplicates are told and not counted as violations.
"""
