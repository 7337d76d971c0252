"""The records of the coordinators' topics (`__consumer_offsets`, `__transaction_state`, `__share_group_state`), declared as data from Kafka's schemas.

One generated module per key and per value, `table.py` (record type to both), and `serde.py`, which frames them.
"""
