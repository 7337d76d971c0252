"""Brokers and the quorum."""

from __future__ import annotations

from api.kafka.client import Kafka, raise_for
from kraft.common.ids import METADATA_TOPIC
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.describe_quorum_request import PartitionData as QuorumPartition
from kraft.protocol.messages.describe_quorum_request import TopicData as QuorumTopic
from kraft.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData


async def describe_brokers(kafka: Kafka) -> list[DescribeClusterBroker]:
    """Every registered broker, fenced ones too, by id."""
    request = DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True)
    response = await kafka.ask(ApiKey.DESCRIBE_CLUSTER, 2, request, DescribeClusterResponse)
    raise_for(response.error_code, response.error_message)
    return sorted(response.brokers, key=lambda broker: broker.broker_id)


async def describe_quorum(kafka: Kafka) -> PartitionData:
    """Leader, epoch, high watermark and replicas of the metadata log. The only trustworthy source of the active controller: Metadata names any broker."""
    request = DescribeQuorumRequest(topics=[QuorumTopic(topic_name=METADATA_TOPIC, partitions=[QuorumPartition(partition_index=0)])])
    response = await kafka.ask(ApiKey.DESCRIBE_QUORUM, 2, request, DescribeQuorumResponse)
    raise_for(response.error_code, response.error_message)
    partition = response.topics[0].partitions[0]
    raise_for(partition.error_code, partition.error_message)
    return partition
