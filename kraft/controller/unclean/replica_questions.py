"""Asks brokers over Kafka's protocol where the logs of their replicas end, for `kraft.controller.unclean.recovery`.

All requests have replica id -2 (debugging consumer), to which leaders and followers respond:

- ListOffsets of the latest offset returns the log end offset.
- OffsetForLeaderEpoch of the partition's own epoch returns the last leader epoch in the log, and its end. Both offsets
  must be equal. Otherwise the log changed meanwhile and the answer does not count.
- OffsetForLeaderEpoch of an earlier epoch returns the end of that epoch in the log.

Followers of Apache Kafka refuse OffsetForLeaderEpoch (NOT_LEADER_OR_FOLLOWER). They are asked by Fetch instead
(`follower_epochs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import trio

from kraft.common.errors import KraftError
from kraft.common.ids import DEBUGGING_REPLICA
from kraft.controller.unclean.follower_epochs import FETCH_VERSION, Asked, EpochSearch, Place
from kraft.controller.unclean.log_comparison import Answer, LogEnd
from kraft.controller.unclean.recovery import Question
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kraft.rpc_client.connection import ClientConnection, connect
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft.common.logging import Logger

ASK_SECONDS_MAX: Final = 2.0
"""Timeout of one request to a broker. The broker is asked again in the next round."""
PARTITIONS_PER_REQUEST: Final = 1_000
LATEST: Final = -1
EARLIEST: Final = -2
NO_EPOCH: Final = -1
CLIENT_ID: Final = "unclean-recovery"

Answers = list[tuple[Question, Answer]]


class ReplicaQuestions:
    """Sends the questions. Stateless. `listener` is the name of the brokers' listener to connect to."""

    def __init__(self, world: World, listener: str, log: Logger | None) -> None:
        self._world = world
        self._listener = listener
        self._log = log

    async def ask(self, brokers: Sequence[BrokerRegistration], questions: Sequence[Question]) -> Answers:
        """Ask all brokers concurrently. Questions without an answer are left out of the result."""
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
    """Ask one broker about log ends and epochs. Raises KraftError, TimeoutError."""
    ends = _by_partition(await connection.call(_offset_request(questions, LATEST), timeout=ASK_SECONDS_MAX))
    last = await _epoch_ends(connection, [(ask, ask.leader_epoch) for ask in questions])
    found: dict[Question, LogEnd] = {}
    without_epoch: list[Question] = []
    for question in questions:
        end, epoch = ends.get(_place(question)), last.get(_place(question))
        if end is None or epoch is None or end.offset < 0:
            continue
        if epoch.last_epoch >= 0 and epoch.end_offset == end.offset:
            found[question] = LogEnd(epoch.last_epoch, end.offset)
        elif epoch.last_epoch < 0:
            without_epoch.append(question)
    if without_epoch:  # Correct for an empty log only.
        starts = _by_partition(await connection.call(_offset_request(without_epoch, EARLIEST), timeout=ASK_SECONDS_MAX))
        for question in without_epoch:
            start, end = starts.get(_place(question)), ends[_place(question)]
            if start is not None and start.offset == end.offset:
                found[question] = LogEnd(NO_EPOCH, end.offset)
    return await _compare(connection, found)


async def _compare(connection: ClientConnection, found: dict[Question, LogEnd]) -> Answers:
    """Return the answers, with the ends of the requested epochs. Raises KraftError, TimeoutError."""
    epoch_ends: dict[Question, dict[int, LogEnd]] = {question: {} for question in found}
    # A request names a partition once, so each further epoch of it needs another request.
    for turn in range(max((len(question.epochs) for question in found), default=0)):
        asked = [question for question in found if len(question.epochs) > turn]
        told = await _epoch_ends(connection, [(question, question.epochs[turn]) for question in asked])
        for question in asked:
            answer = told.get(_place(question))
            if answer is not None:
                epoch_ends[question][question.epochs[turn]] = answer
    return [
        (question, Answer(end, epoch_ends[question]))
        for question, end in found.items()
        if len(epoch_ends[question]) == len(question.epochs)
    ]


async def _epoch_ends(connection: ClientConnection, wanted: Sequence[tuple[Question, int]]) -> dict[Place, LogEnd]:
    """Return, of each log, the largest epoch that is not above the wanted one, and its end. Raises KraftError,
    TimeoutError."""
    response = await connection.call(_epoch_request(wanted), timeout=ASK_SECONDS_MAX)
    found = {place: LogEnd(told.leader_epoch, told.end_offset) for place, told in _by_partition(response).items()}
    refused = _by_partition(response, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    search = EpochSearch(
        [
            Asked(question.topic, question.key[1], question.leader_epoch, epoch)
            for question, epoch in wanted
            if _place(question) in refused
        ]
    )
    while (request := search.request()) is not None:
        search.answered(await connection.call(request, version=FETCH_VERSION, timeout=ASK_SECONDS_MAX))
    return {**found, **search.found}


def _place(question: Question) -> Place:
    return question.topic, question.key[1]


def _offset_request(questions: Sequence[Question], timestamp: int) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for question in questions:
        wanted = ListOffsetsPartition(
            partition_index=question.key[1], current_leader_epoch=question.leader_epoch, timestamp=timestamp
        )
        topics.setdefault(question.topic, []).append(wanted)
    return ListOffsetsRequest(
        replica_id=DEBUGGING_REPLICA,
        topics=[ListOffsetsTopic(name=name, partitions=wanted) for name, wanted in topics.items()],
    )


def _epoch_request(wanted: Sequence[tuple[Question, int]]) -> OffsetForLeaderEpochRequest:
    topics: dict[str, list[OffsetForLeaderPartition]] = {}
    for question, epoch in wanted:
        topics.setdefault(question.topic, []).append(
            OffsetForLeaderPartition(
                partition=question.key[1], current_leader_epoch=question.leader_epoch, leader_epoch=epoch
            )
        )
    listed = [OffsetForLeaderTopic(topic=name, partitions=asked) for name, asked in topics.items()]
    return OffsetForLeaderEpochRequest(replica_id=DEBUGGING_REPLICA, topics=listed)


def _by_partition(response: Any, error_code: int = ErrorCode.NONE) -> dict[Place, Any]:
    """Return the results with this error code, by default those without an error, by partition. `response` is one of
    ListOffsets or of OffsetForLeaderEpoch."""
    found = {}
    for topic in response.topics:
        name = topic.name if hasattr(topic, "name") else topic.topic
        for told in topic.partitions:
            index = told.partition_index if hasattr(told, "partition_index") else told.partition
            if told.error_code == error_code:
                found[name, index] = told
    return found
