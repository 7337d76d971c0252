"""The work on a broker's logs: load, append in threads, sync, clean, checkpoint, and move between log directories.

Enters: logs of `kraft/storage`, whose long work is split into steps. Leaves: synced offsets, freed disk space, offline
directories. Deliberately absent: the log itself (`kraft/storage`), and leadership (`partition.py`).
"""
