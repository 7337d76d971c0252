"""Pipelines that people run as they are: files into a topic, a topic into Parquet, a topic into another cluster, and
whether two of them agree.

Each job is a function over a Spark session and a frozen description of what is wanted; it answers a summary (a
document, see docs/spark.md) and says how far it is through a callback. `kraft spark` is their command line. A job
that moves data is a streaming query that takes what there is and ends: its checkpoint makes it resumable, and each
micro-batch arrives once.
"""
