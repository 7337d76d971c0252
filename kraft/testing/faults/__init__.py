"""What a test may do to the nodes of a `LocalCluster`: cut and slow their network, freeze them, fill and break their
disks.

What enters is a `Switchboard`, which says what is to fail. What leaves is one `FaultyWorld` a node: the real world,
whose network, clock, threads and files ask the switchboard first. A network fault begins on established connections
as on new ones, and needs no rights. Work processes of the cleaner have files of their own: no fault reaches them.
"""
