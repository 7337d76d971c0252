"""Every wire message of Apache Kafka 4.3 as data: one generated module per schema, imported when it is used. `table.py` lists the APIs."""
