"""The records of the metadata log, declared as data from Kafka's schemas.

One generated module per record, `table.py` (record id to module), and `serde.py`, which frames them.
"""
