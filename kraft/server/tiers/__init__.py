"""Tiered storage of one broker: its object store, and the topic `__remote_log_metadata`.

Enters: a configuration, records of the topic. Leaves: the ports that `kraft/replication/tiers` uses. Deliberately
absent: which segments are copied or expire (`kraft/remote`).
"""
