"""Faults for the nodes of a `LocalCluster`: cut and slow networks, paused nodes, full and failing disks.

A `Switchboard` says what is to fail. Each node gets a `FaultyWorld`: the real world, whose network, clock, threads and
files consult the switchboard first. Network faults act on existing connections as well as on new ones, and need no
privileges. The worker processes of the log cleaner use files of their own, which no fault reaches.
"""
