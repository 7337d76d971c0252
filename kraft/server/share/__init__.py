"""Share groups on one broker: the share coordinator, requests to the share coordinators of other brokers, and the share
partitions that this broker leads.

Enters: states of share partitions that leaders and group coordinators read and write. Leaves: requests
of the five share-state APIs, ListOffsets. Deliberately absent: the rules (`kraft/coordinator/share`, `kraft/share`).
"""
