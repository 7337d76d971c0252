"""Share groups on the leader of a partition (KIP-932): records are locked for one member, acknowledged, released.

Enters: fetches and acknowledgements of share consumers. Leaves: acquired ranges, and delivery states for the share
coordinator. Deliberately absent: membership (the group coordinator), and durable state (the share coordinator).
"""
