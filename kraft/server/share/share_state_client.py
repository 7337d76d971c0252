"""Reads and writes the states of share partitions at their share coordinators. Implements
`kraft.coordinator.share.share_states.ShareStates`.

The coordinator of a share partition is the leader of a partition of `__share_group_state`. If that is this node, the
coordinator is called; else a request is sent. One request for each API and group is in flight to each broker.
Operations that arrive meanwhile are batched into the next one.

Transient errors are retried with growing pauses, until the time of the operation is over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import trio

from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import uuid_to_text
from kraft.common.logging import Logger
from kraft.common.quarantine import Quarantine
from kraft.coordinator.share.share_coordinator import ShareCoordinator
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
from kraft.world.turns import Turn

WAITING_MAX: Final = 10_000
"""Operations that wait for their coordinators. Further ones are refused."""
PARTITIONS_A_REQUEST: Final = 1_000
BATCHES_A_REQUEST: Final = 50_000
"""A request contains at least one share partition, with any number of state batches, and ends before the one that would
exceed this number. A batch takes 20 bytes."""
RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 1.0
ATTEMPT_SECONDS_MAX: Final = 10.0
"""Timeout of one request. A coordinator responds within `share.coordinator.write.timeout.ms`."""
PASSING: Final = frozenset(
    (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSUPPORTED_VERSION,
    )
)
"""Transient errors of a share coordinator. UNSUPPORTED_VERSION: the coordinator has not yet applied a change of
share.version that this node has applied. UNKNOWN_TOPIC_OR_PARTITION is transient too if this node knows the topic."""


class _Api(NamedTuple):
    """One of the five share-state APIs: its messages, and its method of ShareCoordinator."""

    request: Callable[..., Any]
    topic: Callable[..., Any]
    serve: Callable[[ShareCoordinator, Any], Awaitable[Any]]


INITIALIZE: Final = _Api(
    initializing.InitializeShareGroupStateRequest,
    initializing.InitializeStateData,
    lambda coordinator, request: coordinator.initialize(request),
)
READ: Final = _Api(
    reading.ReadShareGroupStateRequest, reading.ReadStateData, lambda coordinator, request: coordinator.read(request)
)
WRITE: Final = _Api(
    writing.WriteShareGroupStateRequest, writing.WriteStateData, lambda coordinator, request: coordinator.write(request)
)
SUMMARIZE: Final = _Api(
    summarizing.ReadShareGroupStateSummaryRequest,
    summarizing.ReadStateSummaryData,
    lambda coordinator, request: coordinator.read_summary(request),
)
DELETE: Final = _Api(
    deleting.DeleteShareGroupStateRequest,
    deleting.DeleteStateData,
    lambda coordinator, request: coordinator.delete(request),
)


class _Destination(NamedTuple):
    """The broker, API and group of a request. Calls with equal values can share one request."""

    broker_id: int
    api: _Api
    group_id: str


class _Operation:
    """One attempt at an operation on a share partition. `result` is the partition's result in the response. It stays
    None, with the reason in `failure`, if the coordinator did not answer."""

    __slots__ = ("answered", "failure", "is_sent", "key", "partition", "result")

    def __init__(self, key: SharePartitionKey, partition: Any) -> None:
        self.key = key
        self.partition = partition
        """The partition's part of the request."""
        self.answered = trio.Event()
        self.result: Any = None
        self.failure = "this node is shutting down"
        self.is_sent = False

    def batch_count(self) -> int:
        return len(getattr(self.partition, "state_batches", ()))


class ShareStateClient(ShareStates):
    """Sends operations on share states to their coordinators. Owned by the broker's loop. `coordinator_of` returns the
    broker that coordinates a share partition: -1 if there is none now, None without the topic, which `create_topic`
    then creates. `topic_exists` says whether this node knows the share partition's topic. `patience_s` limits one
    operation with all of its attempts."""

    def __init__(
        self,
        node_id: int,
        coordinator: ShareCoordinator,
        coordinator_of: Callable[[SharePartitionKey], int | None],
        topic_exists: Callable[[SharePartitionKey], bool],
        create_topic: Callable[[], Awaitable[None]],
        channel: BrokerChannel,
        clock: Clock,
        log: Logger,
        set_aside: Quarantine,
        patience_s: float,
    ) -> None:
        self._node_id = node_id
        self._coordinator = coordinator
        self._coordinator_of = coordinator_of
        self._topic_exists = topic_exists
        self._create_topic = create_topic
        self._channel = channel
        self._clock = clock
        self._log = log
        self._set_aside = set_aside
        self._patience_s = patience_s
        self._waiting_count = 0
        self._waiting: dict[_Destination, list[_Operation]] = {}
        """Queued operations by destination, while a task sends to it."""
        self._topic_made: trio.Event | None = None
        """Set when the creation of the topic in progress has ended."""
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

    # See the port.

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        partition = initializing.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        await self._ask(INITIALIZE, key, partition)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState:
        result = await self._ask(READ, key, reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch))
        batches = [
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in result.state_batches
        ]
        return ReadState(result.state_epoch, result.start_offset, batches)

    async def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        partition = writing.PartitionData(
            partition=key.partition,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=[
                writing.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in batches
            ],
        )
        await self._ask(WRITE, key, partition)

    async def read_summary(self, key: SharePartitionKey) -> StateSummary:
        result = await self._ask(SUMMARIZE, key, summarizing.PartitionData(partition=key.partition, leader_epoch=-1))
        return StateSummary(
            result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count
        )

    async def delete(self, key: SharePartitionKey) -> None:
        await self._ask(DELETE, key, deleting.PartitionData(partition=key.partition))

    async def _ask(self, api: _Api, key: SharePartitionKey, partition: Any) -> Any:
        """Return the partition's result without an error. Raises ApiError: the coordinator's error, or
        COORDINATOR_NOT_AVAILABLE after `patience_s`, or if too many operations wait."""
        if self._waiting_count >= WAITING_MAX:
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{WAITING_MAX} operations wait for share coordinators already",
            )
        self._waiting_count += 1
        try:
            return await self._retry(api, key, partition)
        finally:
            self._waiting_count -= 1

    async def _retry(self, api: _Api, key: SharePartitionKey, partition: Any) -> Any:
        deadline = self._clock.now() + self._patience_s
        pause = RETRY_SECONDS
        while True:
            try:
                return await self._attempt(api, _Operation(key, partition), deadline)
            except ApiError as refused:
                if self._nursery is None or not self._is_passing(refused, key):
                    raise
                if self._clock.now() + pause >= deadline:
                    raise ApiError(
                        ErrorCode.COORDINATOR_NOT_AVAILABLE,
                        f"share group {key.group_id}, partition {key.partition} of topic {uuid_to_text(key.topic_id)}: "
                        f"no success at its share coordinator within {self._patience_s} seconds: {refused}",
                    ) from refused
            await self._clock.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS_MAX)

    def _is_passing(self, refused: ApiError, key: SharePartitionKey) -> bool:
        if refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return self._topic_exists(key)  # The coordinator has older metadata.
        return refused.code in PASSING

    async def _attempt(self, api: _Api, operation: _Operation, deadline: float) -> Any:
        """Send the operation once, to the present coordinator. Raises ApiError."""
        broker_id = self._coordinator_of(operation.key)
        if broker_id is None:
            await self._topic_creation(deadline)
            broker_id = self._coordinator_of(operation.key)
        if broker_id is None or broker_id < 0:
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "its partition of __share_group_state has no leader now"
            )
        waiting = self._enqueue(_Destination(broker_id, api, operation.key.group_id), operation)
        try:
            with self._clock.move_on_at(deadline):
                await operation.answered.wait()
        finally:
            if not operation.is_sent and operation in waiting:
                waiting.remove(operation)  # Its caller waits no longer.
        result = operation.result
        if result is None:
            reason = operation.failure if operation.answered.is_set() else "it has not answered in time"
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {broker_id}: {reason}")
        if result.error_code != ErrorCode.NONE:
            raise ApiError(result.error_code, result.error_message or "")
        return result

    async def _topic_creation(self, deadline: float) -> None:
        """Create the topic, or wait for its creation by another operation. Raises ApiError
        COORDINATOR_NOT_AVAILABLE."""
        if self._topic_made is not None:
            with self._clock.move_on_at(deadline):
                await self._topic_made.wait()
            return
        made = self._topic_made = trio.Event()
        try:
            with self._clock.move_on_at(deadline):
                await self._create_topic()
        except ApiError as refused:
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"__share_group_state cannot be created: {refused.message}"
            ) from refused
        finally:
            made.set()
            self._topic_made = None

    def _enqueue(self, destination: _Destination, operation: _Operation) -> list[_Operation]:
        """Queue an operation, and start a task that sends it if there is none. Returns the queue."""
        waiting = self._waiting.get(destination)
        if waiting is not None:
            waiting.append(operation)
            return waiting
        waiting = [operation]
        if self._nursery is None:
            operation.answered.set()
        else:
            self._waiting[destination] = waiting
            self._nursery.start_soon(self._send_waiting, destination)
        return waiting

    async def _send_waiting(self, destination: _Destination) -> None:
        """Send the operations that wait for the destination, until there are none."""
        waiting = self._waiting[destination]
        try:
            while waiting:
                sent = _taken(waiting)
                waiting[:] = [operation for operation in waiting if not operation.is_sent]
                with self._set_aside.guard("share states", f"broker {destination.broker_id}"):
                    await self._send(destination, sent)
        finally:
            del self._waiting[destination]
            for operation in waiting:
                operation.answered.set()

    async def _send(self, destination: _Destination, operations: Sequence[_Operation]) -> None:
        """Send the operations in one request, and set their results."""
        broker_id, api, group_id = destination
        by_topic: dict[bytes, list[Any]] = {}
        for operation in operations:
            by_topic.setdefault(operation.key.topic_id, []).append(operation.partition)
        request = api.request(
            group_id=group_id,
            topics=[api.topic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic.items()],
        )
        try:
            if broker_id == self._node_id:
                response = await api.serve(self._coordinator, request)
            else:
                response = await self._channel.send(broker_id, request, timeout_s=ATTEMPT_SECONDS_MAX)
            results = await _results_of(response)
            for operation in operations:
                operation.result = results.get((operation.key.topic_id, operation.key.partition))
                operation.failure = "its response lacks the partition"
        except (Disconnected, TimeoutError, UnsupportedApi, KraftError) as problem:
            self._log.debug("share states not sent", broker=broker_id, error=str(problem))
            for operation in operations:
                operation.failure = str(problem) or type(problem).__name__
        finally:
            for operation in operations:
                operation.answered.set()


def _taken(waiting: Iterable[_Operation]) -> list[_Operation]:
    """The operations of the next request. The response is by partition, so a second operation on one waits."""
    taken: dict[SharePartitionKey, _Operation] = {}
    count = 0
    for operation in waiting:
        if operation.key in taken:
            continue
        count += operation.batch_count()
        if taken and (count > BATCHES_A_REQUEST or len(taken) == PARTITIONS_A_REQUEST):
            break
        taken[operation.key] = operation
        operation.is_sent = True
    return list(taken.values())


async def _results_of(response: Any) -> Mapping[tuple[bytes, int], Any]:
    """The results by topic id and partition."""
    found: dict[tuple[bytes, int], Any] = {}
    turn = Turn()
    for topic in response.results:
        for result in topic.partitions:
            found[bytes(topic.topic_id), result.partition] = result
            if turn.is_over():
                await turn.next()
    return found
