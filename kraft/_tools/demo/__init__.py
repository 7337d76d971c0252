"""`make demo`: writes real data to a cluster of three nodes, and compares results of Spark with those of pandas. A
leader is killed meanwhile; afterwards all nodes are killed and the data is checked again.

`cluster.py` starts and kills the nodes. `flights.py` loads the data. `topic.py` writes and reads the topic with
ordinary clients. `spark_job.py` runs the Spark job. `__main__.py` runs all steps.
"""
