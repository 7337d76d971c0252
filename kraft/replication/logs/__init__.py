"""What drives the logs of a broker: they are loaded, appended to in threads, synced, cleaned, checkpointed, and moved
between log directories.

Enters: logs of `kraft/storage`, whose long work comes in steps. Leaves: synced offsets, freed disks, directories that
are offline. Deliberately absent: what a log is (`kraft/storage`), and who leads a partition (`partition.py`).
"""
