"""Moving partitions between brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode, message_of
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from kraft_http.kafka.client import Kafka, raise_for

TIMEOUT_MS = 30_000

Place = tuple[str, int]


class Outcome(NamedTuple):
    """What became of one partition of a request."""

    topic: str
    partition: int
    code: int
    message: str | None

    @property
    def sentence(self) -> str | None:
        return None if self.code == ErrorCode.NONE else self.message or message_of(self.code)


async def alter_reassignments(kafka: Kafka, targets: Mapping[Place, Sequence[int] | None]) -> list[Outcome]:
    """Begin moves to the replicas given, or cancel them (None). Each partition has an outcome of its own. Raises
    KafkaProblem for the request as a whole."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for (topic, partition), replicas in targets.items():
        asked = ReassignablePartition(partition_index=partition, replicas=None if replicas is None else list(replicas))
        topics.setdefault(topic, []).append(asked)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    response = await kafka.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request, AlterPartitionReassignmentsResponse)
    raise_for(response.error_code, response.error_message)
    return [
        Outcome(topic.name, each.partition_index, each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    ]


async def alter_reassignment(kafka: Kafka, topic: str, partition: int, replicas: Sequence[int] | None) -> None:
    """One of them. Raises KafkaProblem."""
    [outcome] = await alter_reassignments(kafka, {(topic, partition): replicas})
    raise_for(outcome.code, outcome.message, f"{topic}-{partition}")
