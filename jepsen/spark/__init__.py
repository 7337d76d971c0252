"""Rounds in which Spark reads a replicated topic while nodes of the cluster, and processes of Spark, are killed. At the
end all records are counted.

The cluster has three nodes in three processes on loopback (RF 3, min.insync.replicas 2). An idempotent writer sends
numbered records. One Spark driver runs the source without jars and Spark's own connector. With each source it runs a
stream into Parquet, a stream into foreachBatch keyed by batch id, a stream back into the log, and repeated batch reads.
A round kills the data leader, the active controller, Python workers and the driver, and adds a partition. Then Spark
reads to the end. No data is lost in these rounds, so no query may report data loss. Meanwhile several batch reads are
planned each second. Each plan has every partition and all records acknowledged before the plan began, or reports that
it failed.

Other rounds cause real losses, which must be reported (`loss.py`). Retention overtakes a query, or an unclean election
truncates a log below a query's checkpoint. With failOnDataLoss a query of the source without jars fails and names
partition and range. Without it the query names every range and continues, and everything else arrives once. Spark's own
connector must fail and continue likewise; the range that it names is printed but not judged.

`job.py` and `queries.py` are drivers, `processes.py` starts and kills them, `round.py` is a round, `plans.py` makes
plans. `checks.py` and `loss_checks.py` (pure) judge, from the records that were sent, the records that were
acknowledged, and the content of each sink. Parquet, foreachBatch keyed by batch id and the sink without jars promise
exactly once. Spark's own Kafka sink promises at least once, so its duplicates are printed but are no violations.
"""
