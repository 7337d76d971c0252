"""Tiered storage of one broker put together: its object store, and the topic `__remote_log_metadata`.

Enters: a configuration, records of the topic. Leaves: what `kraft/replication/tiers` drives with. Deliberately absent:
which segments are copied or expire (`kraft/remote`).
"""
