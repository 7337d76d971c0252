"""What a node can tell of the cluster: topics, groups, directories, losses, and the facts of a verdict on its health.

Enters: the metadata image, and what other nodes answer under status keys. Leaves: facts for the HTTP admin, for status
keys and for metrics. Deliberately absent: the verdict's rules, and time series (`history`, `metrics`).
"""
