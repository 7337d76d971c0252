"""Spark reads a replicated topic while the cluster under it, and Spark itself, are being killed; then everything is
counted.

Three nodes in three processes on loopback (RF 3, min.insync.replicas 2), an idempotent writer of numbered records,
and one Spark driver that runs, for the source without jars and for Spark's own connector: a stream into Parquet, a
stream into foreachBatch keyed by batch id, a stream back into the log, and batch reads again and again. A round
kills the data leader, the active controller, Python workers and the driver, and adds a partition; then lets Spark
read to the end. No round may end in a report of data loss: none is lost there. All the while plans of batch reads
are made, several a second: each has every partition and all that was acknowledged before it began, or says that it
failed.

Then what is lost in fact must be told: retention overtakes a query, and an unclean election ends a log below a
query's checkpoint (`loss.py`). With failOnDataLoss a query of ours fails and names partition and range; without it
it names every range and goes on, and everything else arrives once. Spark's own connector must fail and go on
likewise; the range that it names is told and not judged.

`job.py` and `queries.py` are drivers, `processes.py` starts and kills them, `round.py` is a round, `plans.py` makes
plans, `checks.py` and `loss_checks.py` (pure) judge. A check knows what was acknowledged, what was sent, and what
each sink holds. Exactly once is promised by Parquet, by foreachBatch keyed by batch id and by the sink without jars;
Spark's own Kafka sink promises at least once, so its duplicates are told and not counted as violations.
"""
