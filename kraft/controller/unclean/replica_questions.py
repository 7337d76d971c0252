"""Asking brokers how long their replicas are, over Kafka's protocol: the deeds of
`kraft.controller.unclean.recovery`.

Where a log ends is asked as a debugging tool asks it, of a replica whether it leads or not (ListOffsets of the
latest offset with replica id -2); the last leader epoch in it by OffsetForLeaderEpoch of the partition's own, with
the same replica id. Both have to agree, or the log moved meanwhile and the answer does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.client.connection import ClientConnection, connect
from kraft.common.errors import KraftError
from kraft.common.ids import DEBUGGING_REPLICA
from kraft.controller.unclean.recovery import LogEnd, Question
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.common.logging import Logger

ASK_SECONDS_MAX: Final = 2.0
"""For a broker to answer one request. It is asked again in the next round."""
PARTITIONS_PER_REQUEST: Final = 1_000
LATEST: Final = -1
CLIENT_ID: Final = "unclean-recovery"

Answers = list[tuple[Question, LogEnd]]


class ReplicaQuestions:
    """Stateless. `listener` is the name of the listener by which brokers are asked."""

    def __init__(self, world: World, listener: str, log: Logger | None) -> None:
        self._world = world
        self._listener = listener
        self._log = log

    async def ask(self, brokers: Sequence[BrokerRegistration], questions: Sequence[Question]) -> Answers:
        """Ask all brokers at once; what could not be learnt is left out."""
        answers: Answers = []
        async with trio.open_nursery() as asking_nursery:
            for broker in brokers:
                mine = [question for question in questions if question.broker_id == broker.id]
                asking_nursery.start_soon(self._ask_broker, broker, mine, answers)
        return answers

    async def _ask_broker(self, broker: BrokerRegistration, questions: Sequence[Question], answers: Answers) -> None:
        endpoint = broker.endpoint(self._listener) or next(iter(broker.endpoints), None)
        if endpoint is None:
            return
        try:
            async with connect(
                self._world, endpoint.host, endpoint.port, client_id=CLIENT_ID, timeout=ASK_SECONDS_MAX
            ) as connection:
                for start in range(0, len(questions), PARTITIONS_PER_REQUEST):
                    answers += await _ask_some(connection, questions[start : start + PARTITIONS_PER_REQUEST])
        except (KraftError, TimeoutError) as problem:
            if self._log is not None:
                self._log.warning("replica not asked", broker=broker.id, partitions=len(questions), reason=str(problem))


async def _ask_some(connection: ClientConnection, questions: Sequence[Question]) -> Answers:
    """Raises KraftError, TimeoutError."""
    ends = _by_partition(await connection.call(_end_request(questions), timeout=ASK_SECONDS_MAX))
    epochs = _by_partition(await connection.call(_epoch_request(questions), timeout=ASK_SECONDS_MAX))
    answers: Answers = []
    for question in questions:
        place = (question.topic, question.key[1])
        end, epoch = ends.get(place), epochs.get(place)
        if end is not None and epoch is not None and (epoch.leader_epoch < 0 or epoch.end_offset == end.offset):
            answers.append((question, LogEnd(epoch.leader_epoch, end.offset)))
    return answers


def _end_request(questions: Sequence[Question]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for question in questions:
        wanted = ListOffsetsPartition(
            partition_index=question.key[1], current_leader_epoch=question.leader_epoch, timestamp=LATEST
        )
        topics.setdefault(question.topic, []).append(wanted)
    return ListOffsetsRequest(
        replica_id=DEBUGGING_REPLICA,
        topics=[ListOffsetsTopic(name=name, partitions=wanted) for name, wanted in topics.items()],
    )


def _epoch_request(questions: Sequence[Question]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for question in questions:
        epoch = question.leader_epoch
        topics.setdefault(question.topic, []).append(
            OffsetForLeaderPartition(partition=question.key[1], current_leader_epoch=epoch, leader_epoch=epoch)
        )
    listed = [OffsetForLeaderTopic(topic=name, partitions=wanted) for name, wanted in topics.items()]
    return OffsetForLeaderEpochRequest(replica_id=DEBUGGING_REPLICA, topics=listed)


def _by_partition(response: Any) -> dict[tuple[str, int], Any]:
    """The partitions of either answer that have no error."""
    found = {}
    for topic in response.topics:
        name = topic.name if hasattr(topic, "name") else topic.topic
        for told in topic.partitions:
            index = told.partition_index if hasattr(told, "partition_index") else told.partition
            if not told.error_code:
                found[name, index] = told
    return found
