"""Placement of replicas and leadership: reassignments, elections, and the log ends of replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kraft.admin.cluster import describe_cluster
from kraft.admin.errors import check
from kraft.admin.reassignment_plan import PlanBroker, replica_counts, with_copies
from kraft.admin.topics import describe_topics, list_topics
from kraft.admin.transport import AdminTransport
from kraft.common.errors import KraftError
from kraft.common.ids import DEBUGGING_REPLICA, TopicPartition
from kraft.common.listed_offsets import is_offset_answer
from kraft.protocol.error_codes import ErrorCode, message_of, name_of
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import ListOffsetsResponse
from kraft.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from kraft.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

TIMEOUT_MS = 30_000
PREFERRED, UNCLEAN = 0, 1
LATEST, EARLIEST = -1, -2


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that is being reassigned; `replicas` includes those being added and removed."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one partition of a request."""

    partition: TopicPartition
    code: int
    message: str | None = None

    @property
    def error(self) -> str:
        """The name of the error code; empty without an error."""
        return "" if self.code == ErrorCode.NONE else name_of(self.code)

    @property
    def sentence(self) -> str:
        """The error message; empty without an error."""
        return "" if self.code == ErrorCode.NONE else self.message or message_of(self.code)


async def list_moves(port: AdminTransport) -> list[Move]:
    """Every reassignment in progress. Raises Refused."""
    request = ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None)

    async def attempt() -> list[Move]:
        response = await port.ask(request, ListPartitionReassignmentsResponse)
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

    return await port.retrying(attempt)


async def plan_copies(port: AdminTransport, topic: str, count: int) -> dict[TopicPartition, tuple[int, ...]]:
    """The new replicas of those partitions that do not have `count` replicas. New replicas go to unfenced brokers.
    Raises Refused, and KraftError if there are too few brokers."""
    known = [each for each in (await describe_cluster(port)).brokers if not each.is_fenced]
    held = await list_topics(port)
    found = next((each for each in held if each.name == topic), None)
    if found is None:
        [found] = await describe_topics(port, [topic])  # Raises.
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


async def alter_moves(port: AdminTransport, targets: Mapping[TopicPartition, Sequence[int] | None]) -> list[Outcome]:
    """Start moves to the given replicas; None cancels a move. Raises Refused if the whole request is rejected."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, index), replicas in targets.items():
        asked = ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
        topics.setdefault(topic, []).append(asked)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )

    async def attempt() -> list[Outcome]:
        response = await port.ask(request, AlterPartitionReassignmentsResponse)
        check(response.error_code, "the reassignment", response.error_message)
        return [
            Outcome(TopicPartition(topic.name, each.partition_index), each.error_code, each.error_message)
            for topic in response.responses
            for each in topic.partitions
        ]

    return await port.retrying(attempt)


async def alter_move(port: AdminTransport, partition: TopicPartition, replicas: Sequence[int] | None) -> None:
    """Start or cancel the move of one partition. Raises Refused."""
    [outcome] = await alter_moves(port, {partition: replicas})
    check(outcome.code, str(partition), outcome.message)


async def elect_leaders(port: AdminTransport, kind: int, partitions: Sequence[TopicPartition] | None) -> list[Outcome]:
    """Hold PREFERRED or UNCLEAN elections for the given partitions, or for every partition that needs one (None).
    Raises Refused if the whole request is rejected."""
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
        response = await port.ask(request, ElectLeadersResponse)
        check(response.error_code, "the election")
        results = response.replica_election_results
        return [
            Outcome(TopicPartition(topic.topic, each.partition_id), each.error_code, each.error_message)
            for topic in results
            for each in topic.partition_result
        ]

    return await port.retrying(attempt)


async def replica_offsets(
    port: AdminTransport, replicas: Mapping[int, Sequence[TopicPartition]], time: int = LATEST
) -> dict[tuple[int, TopicPartition], int]:
    """The log ends of replicas (EARLIEST: starts), by broker and partition, each from its own broker. Replicas with an
    error, and those whose broker does not answer, are left out."""

    async def ask(broker_id: int) -> list[tuple[tuple[int, TopicPartition], int]]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, index in replicas[broker_id]:
            topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=time))
        request = ListOffsetsRequest(
            replica_id=DEBUGGING_REPLICA,
            topics=[ListOffsetsTopic(name=name, partitions=asked) for name, asked in topics.items()],
            timeout_ms=TIMEOUT_MS,
        )
        response = await port.ask(request, ListOffsetsResponse, node_id=broker_id)
        return [
            ((broker_id, TopicPartition(answer.name, each.partition_index)), each.offset)
            for answer in response.topics
            for each in answer.partitions
            if each.error_code == ErrorCode.NONE and is_offset_answer(each.offset, time)
        ]

    return dict(pair for pairs in await port.ask_brokers(ask, sorted(replicas)) for pair in pairs)
