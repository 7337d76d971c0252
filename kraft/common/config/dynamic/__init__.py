"""Configuration in the metadata: the checks of changes, effective values, and descriptions.

Enters: overrides of topics, brokers, groups and client metrics. Leaves: effective values, results of DescribeConfigs,
rejections, and the keys that hold reports of unclean elections. Deliberately absent: the records (`controller`).
"""
