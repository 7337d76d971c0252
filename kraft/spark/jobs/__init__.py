"""Ready-made pipelines: files to a topic, a topic to Parquet, a topic to another cluster, and a comparison of two
sides.

Each job is a function of a Spark session and a frozen description of its parameters. It returns a summary (a document,
see docs/spark.md) and reports progress through a callback. `kraft spark` is the command line. A job that moves data is
a streaming query that processes the present records and ends. Its checkpoint makes it resumable, and each micro-batch
is written exactly once.
"""
