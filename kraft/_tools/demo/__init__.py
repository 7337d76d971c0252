"""`make demo`: real data through a real node, checked against pandas, and still there after SIGKILL.

`node.py` starts and kills the node, `flights.py` knows the data, `topic.py` speaks Kafka to it with ordinary clients, `spark_job.py` asks Spark,
`__main__.py` tells the story.
"""
