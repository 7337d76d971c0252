"""Share groups (KIP-932): members, which partitions each reads, and which partitions have a share state.

Enters: heartbeats of share consumers. Leaves: records of `__consumer_offsets`, assignments, and requests to initialize
share states. Deliberately absent: records in flight (`kraft/share`) and share states (`kraft/coordinator/share`).
"""
