"""What clients are told of the cluster: brokers, topics, leaders; and topics that are made because somebody asked.

Enters: Metadata, DescribeCluster, DescribeTopicPartitions. Leaves: answers, kept encoded for the next who asks, and
CreateTopics for the controller. Deliberately absent: the image (`kraft/metadata`).
"""
