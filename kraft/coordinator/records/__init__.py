"""The records of the coordinators' topics (`__consumer_offsets`, `__transaction_state`, `__share_group_state`), declared as data from Kafka's schemas.

One generated module per key and per value, `table.py` (record type to both), and `serde.py`, which frames them: a key is its type as an int16 and the key's fields, a value its version
as an int16 and the value's fields; no value is a tombstone.
"""
