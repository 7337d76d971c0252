"""Requests to share coordinators, on this broker and on others: implements
`kraft.coordinator.share.share_states.ShareStates`.

One request to a broker is sent at a time; what arrives meanwhile for the same group and API goes into the next one. A
request that fails because coordinators move is sent again, to the coordinator of that time, for a bounded while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import trio

from kraft.common.errors import ApiError, KraftError
from kraft.coordinator.share.share_state import SharePartitionKey, StateBatch
from kraft.coordinator.share.share_states import ReadState, ShareStates, StateSummary
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import delete_share_group_state_request as deleting
from kraft.protocol.messages import initialize_share_group_state_request as initializing
from kraft.protocol.messages import read_share_group_state_request as reading
from kraft.protocol.messages import read_share_group_state_summary_request as summarizing
from kraft.protocol.messages import write_share_group_state_request as writing
from kraft.rpc_client.connection import Disconnected, UnsupportedApi
from kraft.server.broker_channel import BrokerChannel
from kraft.world.ports import Clock

KEYS_A_REQUEST: Final = 500
ATTEMPT_SECONDS_MAX: Final = 30.0
"""How long requests are sent again while coordinators move."""
RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
MOVING: Final = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
"""The coordinator is loading, or another broker."""


class _Api(NamedTuple):
    """How the request of one API is built: the classes of request, topic and partition."""

    name: str
    request: Callable[..., Any]
    topic: Callable[..., Any]
    partition: Callable[..., Any]


INITIALIZE: Final = _Api(
    "initialize",
    initializing.InitializeShareGroupStateRequest,
    initializing.InitializeStateData,
    initializing.PartitionData,
)
READ: Final = _Api("read", reading.ReadShareGroupStateRequest, reading.ReadStateData, reading.PartitionData)
WRITE: Final = _Api("write", writing.WriteShareGroupStateRequest, writing.WriteStateData, writing.PartitionData)
SUMMARIZE: Final = _Api(
    "read_summary",
    summarizing.ReadShareGroupStateSummaryRequest,
    summarizing.ReadStateSummaryData,
    summarizing.PartitionData,
)
DELETE: Final = _Api("delete", deleting.DeleteShareGroupStateRequest, deleting.DeleteStateData, deleting.PartitionData)


class _Question:
    """What is asked about one share partition. `result` is that of the response; None if there was none."""

    __slots__ = ("answered", "api", "is_sent", "key", "partition", "result")

    def __init__(self, api: _Api, key: SharePartitionKey, partition: Any) -> None:
        self.api = api
        self.key = key
        self.partition = partition
        self.answered = trio.Event()
        self.result: Any = None
        self.is_sent = False


class ShareStateClient(ShareStates):
    """Owned by the broker's loop. `coordinator_of` returns the broker that coordinates a share partition, or None while
    there is none. `here` has the methods of this broker's own coordinator by API; `create_topic` creates
    `__share_group_state` if it is missing."""

    def __init__(
        self,
        node_id: int,
        here: Mapping[str, Callable[[Any], Awaitable[Any]]],
        coordinator_of: Callable[[SharePartitionKey], int | None],
        create_topic: Callable[[], Awaitable[None]],
        channel: BrokerChannel,
        clock: Clock,
    ) -> None:
        self._node_id = node_id
        self._here = here
        self._coordinator_of = coordinator_of
        self._create_topic = create_topic
        self._channel = channel
        self._clock = clock
        self._waiting: dict[int, list[_Question]] = {}
        """By broker, while a task sends to it."""
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            async with trio.open_nursery() as sending_nursery:
                self._nursery = sending_nursery
                try:
                    await trio.sleep_forever()
                finally:
                    self._nursery = None
        finally:
            self._channel.close()

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """See the port."""
        await self._ask(INITIALIZE, key, state_epoch=state_epoch, start_offset=start_offset)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState:
        """See the port."""
        found = await self._ask(READ, key, leader_epoch=leader_epoch)
        return ReadState(
            found.state_epoch,
            found.start_offset,
            [
                StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in found.state_batches
            ],
        )

    async def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """See the port."""
        await self._ask(
            WRITE,
            key,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=[
                writing.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        """See the port."""
        found = await self._ask(SUMMARIZE, key, leader_epoch=-1)
        return StateSummary(found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count)

    async def delete(self, key: SharePartitionKey) -> None:
        """See the port."""
        await self._ask(DELETE, key)

    async def _ask(self, api: _Api, key: SharePartitionKey, **fields: Any) -> Any:
        """Ask until the coordinator has answered. Returns its result. Raises ApiError."""
        deadline = self._clock.now() + ATTEMPT_SECONDS_MAX
        pause = RETRY_SECONDS
        why = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the share coordinator of group {key.group_id} is unknown")
        while True:
            broker_id = self._coordinator_of(key)
            if broker_id is None:
                await self._create_topic()
            else:
                question = _Question(api, key, api.partition(partition=key.partition, **fields))
                self._send(broker_id, question)
                await question.answered.wait()
                result = question.result
                if result is not None and result.error_code == ErrorCode.NONE:
                    return result
                if result is not None:
                    why = ApiError(result.error_code, result.error_message or "")
                    if why.code not in MOVING:
                        raise why
            if self._clock.now() + pause >= deadline:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why.message)
            await self._clock.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS_MAX)

    def _send(self, broker_id: int, question: _Question) -> None:
        waiting = self._waiting.get(broker_id)
        if waiting is not None:
            waiting.append(question)
        elif self._nursery is None:
            question.answered.set()
        else:
            self._waiting[broker_id] = [question]
            self._nursery.start_soon(self._send_waiting, broker_id)

    async def _send_waiting(self, broker_id: int) -> None:
        """Send what waits for the broker, until there is nothing."""
        waiting = self._waiting[broker_id]
        try:
            while waiting:
                sent = _taken(waiting)
                waiting[:] = [question for question in waiting if not question.is_sent]
                await self._exchange(broker_id, sent)
        finally:
            del self._waiting[broker_id]
            for question in waiting:
                question.answered.set()

    async def _exchange(self, broker_id: int, questions: list[_Question]) -> None:
        """Send one request, and give each question its result. Without a response they have none."""
        request = _request(questions)
        try:
            if broker_id == self._node_id:
                response = await self._here[questions[0].api.name](request)
            else:
                response = await self._channel.send(broker_id, request)
            results = {
                (bytes(topic.topic_id), each.partition): each for topic in response.results for each in topic.partitions
            }
            for question in questions:
                question.result = results.get((question.key.topic_id, question.key.partition))
        except (Disconnected, TimeoutError, UnsupportedApi, KraftError):
            return  # They are asked again, wherever the coordinator is then.
        finally:
            for question in questions:
                question.answered.set()


def _taken(waiting: Sequence[_Question]) -> list[_Question]:
    """The questions of the next request: of one API and one group, each share partition once."""
    first = waiting[0]
    taken: dict[SharePartitionKey, _Question] = {}
    for question in waiting:
        if (
            question.api is first.api
            and question.key.group_id == first.key.group_id
            and question.key not in taken
            and len(taken) < KEYS_A_REQUEST
        ):
            taken[question.key] = question
            question.is_sent = True
    return list(taken.values())


def _request(questions: Sequence[_Question]) -> Any:
    api, topics = questions[0].api, dict[bytes, list[Any]]()
    for question in questions:
        topics.setdefault(question.key.topic_id, []).append(question.partition)
    return api.request(
        group_id=questions[0].key.group_id,
        topics=[api.topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
    )
