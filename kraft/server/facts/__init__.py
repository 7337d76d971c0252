"""A node's knowledge of the cluster: topics, groups, directories, losses, and the facts for the health verdict.

Enters: the metadata image, and other nodes' answers to status keys. Leaves: facts for the HTTP admin, for status keys
and for metrics. Deliberately absent: the verdict's rules, and time series (`history`, `metrics`).
"""
