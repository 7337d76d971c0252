"""Brokers, and the quorum with its voters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kraft.common.ids import METADATA_TOPIC
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kraft.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.describe_quorum_request import PartitionData as QuorumPartition
from kraft.protocol.messages.describe_quorum_request import TopicData as QuorumTopic
from kraft.protocol.messages.describe_quorum_response import DescribeQuorumResponse, PartitionData
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kraft.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from kraft_http.kafka.client import Kafka, KafkaProblem, raise_for

QUORUM_SECONDS_MAX: Final = 2.0


async def describe_brokers(kafka: Kafka) -> list[DescribeClusterBroker]:
    """Every registered broker, fenced ones too, by id."""
    request = DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True)
    response = await kafka.ask(ApiKey.DESCRIBE_CLUSTER, 2, request, DescribeClusterResponse)
    raise_for(response.error_code, response.error_message)
    return sorted(response.brokers, key=lambda broker: broker.broker_id)


async def describe_quorum(kafka: Kafka) -> PartitionData:
    """The partition of `describe_quorum_fully`."""
    return (await describe_quorum_fully(kafka)).topics[0].partitions[0]


async def describe_quorum_soon(kafka: Kafka) -> PartitionData | None:
    """None when the active controller does not answer within QUORUM_SECONDS_MAX, or there is none: for those who
    have more to tell than this."""
    try:
        async with asyncio.timeout(QUORUM_SECONDS_MAX):
            return await describe_quorum(kafka)
    except (TimeoutError, KafkaProblem):
        return None


async def describe_quorum_fully(kafka: Kafka) -> DescribeQuorumResponse:
    """Leader, epoch, high watermark and replicas of the metadata log. The only trustworthy source of the active
    controller: Metadata names any broker."""
    request = DescribeQuorumRequest(
        topics=[QuorumTopic(topic_name=METADATA_TOPIC, partitions=[QuorumPartition(partition_index=0)])]
    )
    response = await kafka.ask(ApiKey.DESCRIBE_QUORUM, 2, request, DescribeQuorumResponse)
    raise_for(response.error_code, response.error_message)
    partition = response.topics[0].partitions[0]
    raise_for(partition.error_code, partition.error_message)
    return response


async def add_voter(
    kafka: Kafka, node_id: int, directory_id: bytes, endpoints: Sequence[tuple[str, str, int]], timeout_ms: int
) -> None:
    """Make an observer a voter; `endpoints` are (listener, host, port). Returns when the change is committed. Raises
    KafkaProblem."""
    request = AddRaftVoterRequest(
        cluster_id=kafka.port.identity.cluster_id,
        timeout_ms=timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in endpoints],
    )
    response = await kafka.ask(ApiKey.ADD_RAFT_VOTER, 1, request, AddRaftVoterResponse)
    raise_for(response.error_code, response.error_message)


async def remove_voter(kafka: Kafka, node_id: int, directory_id: bytes) -> None:
    """Take a vote away. Raises KafkaProblem."""
    request = RemoveRaftVoterRequest(
        cluster_id=kafka.port.identity.cluster_id, voter_id=node_id, voter_directory_id=directory_id
    )
    response = await kafka.ask(ApiKey.REMOVE_RAFT_VOTER, 0, request, RemoveRaftVoterResponse)
    raise_for(response.error_code, response.error_message)
