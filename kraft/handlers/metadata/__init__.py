"""The APIs that describe the cluster to clients (brokers, topics, leaders), and automatic topic creation.

Enters: Metadata, DescribeCluster, DescribeTopicPartitions. Leaves: responses, cached in encoded form, and CreateTopics
for the controller. Deliberately absent: the image (`kraft/metadata`).
"""
