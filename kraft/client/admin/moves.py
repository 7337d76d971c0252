"""Where replicas are and who leads: reassignments, elections, and how far each replica is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.client.admin.cluster import describe_cluster
from kraft.client.admin.topics import describe_topics, list_topics
from kraft.client.cluster import Cluster
from kraft.client.connection import Disconnected
from kraft.client.errors import DeadlinePassed, NoBroker, check
from kraft.common.errors import KraftError
from kraft.common.ids import DEBUGGING_REPLICA, TopicPartition
from kraft.common.reassignment_plan import PlanBroker, replica_counts, with_copies
from kraft.protocol.error_codes import ErrorCode, message_of, name_of
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest

TIMEOUT_MS = 30_000
PREFERRED, UNCLEAN = 0, 1
LATEST = -1
FINISHED_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Move:
    """A partition on its way; `replicas` are all there are meanwhile."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one partition of a request. `error` is empty where all went well."""

    partition: TopicPartition
    error: str
    sentence: str


async def list_moves(cluster: Cluster) -> list[Move]:
    """Every reassignment under way. Raises ApiError."""

    async def attempt() -> list[Move]:
        response = await cluster.call(ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None))
        check(response.error_code, "the reassignments", response.error_message)
        found = [
            Move(
                TopicPartition(topic.name, each.partition_index),
                tuple(each.replicas),
                tuple(each.adding_replicas),
                tuple(each.removing_replicas),
            )
            for topic in response.topics
            for each in topic.partitions
        ]
        return sorted(found, key=lambda move: move.partition)

    return await cluster.retrying(attempt)


async def plan_copies(cluster: Cluster, topic: str, count: int) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of those partitions that have more or fewer than `count`, so that each has as many. New ones
    go to brokers that are up. Raises ApiError, and KraftError where there are too few brokers."""
    known = [each for each in (await describe_cluster(cluster)).brokers if not each.is_fenced]
    held = await list_topics(cluster)
    found = next((each for each in held if each.name == topic), None)
    if found is None:
        [found] = await describe_topics(cluster, [topic])  # Raises.
    plan = with_copies(
        {(topic, each.index): each.replicas for each in found.partitions},
        [PlanBroker(each.node_id, each.rack) for each in known],
        count,
        replica_counts(partition.replicas for each in held for partition in each.partitions),
    )
    if plan.impossible:
        ids = ", ".join(str(each.node_id) for each in known)
        raise KraftError(f"{topic}: {count} copies do not fit on the brokers that are up ({ids})")
    return {TopicPartition(*place): replicas for place, replicas in plan.moves.items()}


async def finish_moves(cluster: Cluster, topic: str) -> None:
    """Wait until no partition of the topic moves. Raises ApiError, and DeadlinePassed if that takes longer than an
    operation of the cluster may."""
    clock, moving = cluster.world.clock, -1
    with clock.move_on_after(cluster.operation_seconds):
        while moving:
            moving = sum(move.partition.topic == topic for move in await list_moves(cluster))
            if moving:
                await clock.sleep(FINISHED_LOOK_SECONDS)
    if moving:
        raise DeadlinePassed(
            f"{moving} partitions of {topic} are still on their way after {cluster.operation_seconds:g} s"
        )


async def alter_moves(cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int] | None]) -> list[Outcome]:
    """Begin moves to the replicas given; None cancels one. Raises ApiError for the request as a whole."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), replicas in targets.items():
        asked = ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
        topics.setdefault(topic, []).append(asked)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )

    async def attempt() -> list[Outcome]:
        response = await cluster.call(request)
        check(response.error_code, "the reassignment", response.error_message)
        return [
            _outcome(topic.name, each.partition_index, each.error_code, each.error_message)
            for topic in response.responses
            for each in topic.partitions
        ]

    return await cluster.retrying(attempt)


async def elect_leaders(cluster: Cluster, kind: int, partitions: Sequence[TopicPartition] | None) -> list[Outcome]:
    """PREFERRED or UNCLEAN elections for the partitions named, or wherever one is needed (None). Raises ApiError for
    the request as a whole."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions or ():
        topics.setdefault(topic, []).append(index)
    named = (
        None
        if partitions is None
        else [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
    )
    request = ElectLeadersRequest(election_type=kind, topic_partitions=named, timeout_ms=TIMEOUT_MS)

    async def attempt() -> list[Outcome]:
        response = await cluster.call(request)
        check(response.error_code, "the election")
        results = response.replica_election_results
        return [
            _outcome(topic.topic, each.partition_id, each.error_code, each.error_message)
            for topic in results
            for each in topic.partition_result
        ]

    return await cluster.retrying(attempt)


def _outcome(topic: str, index: int, code: int, message: str | None) -> Outcome:
    partition = TopicPartition(topic, index)
    return (
        Outcome(partition, "", "")
        if code == ErrorCode.NONE
        else Outcome(partition, name_of(code), message or message_of(code))
    )


async def replica_ends(
    cluster: Cluster, replicas: Mapping[int, Sequence[TopicPartition]]
) -> dict[tuple[int, TopicPartition], int]:
    """Where the logs of replicas end, each asked of its broker; those whose broker does not answer are left out."""
    found: dict[tuple[int, TopicPartition], int] = {}
    for node_id, partitions in sorted(replicas.items()):
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
        asked = [ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()]
        try:
            response = await cluster.call(
                ListOffsetsRequest(replica_id=DEBUGGING_REPLICA, topics=asked, timeout_ms=TIMEOUT_MS), node_id=node_id
            )
        except (Disconnected, TimeoutError, NoBroker):
            continue  # It is down, which is among what the caller wants to see.
        for answered in response.topics:
            for each in answered.partitions:
                if each.error_code == ErrorCode.NONE:
                    found[node_id, TopicPartition(answered.name, each.partition_index)] = each.offset
    return found
