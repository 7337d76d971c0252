"""Configuration that lives in the metadata: which changes are taken, what is in force, how it is described.

Enters: overrides of topics, brokers, groups and client metrics. Leaves: effective values, answers of DescribeConfigs,
refusals, and the keys in which reports of unclean elections are kept. Deliberately absent: the records (`controller`).
"""
