"""`make demo`: real data through three real nodes, checked against pandas while a leader is killed, and still there
after all are.

`cluster.py` starts and kills three nodes, `flights.py` knows the data, `topic.py` speaks Kafka to it with ordinary
clients, `spark_job.py` asks Spark, `__main__.py` tells the story.
"""
