"""The share coordinator: one method per API, over the shards of `__share_group_state` that this node leads.

It finds the shard of each share partition. It also keeps the topic short: share partitions without a recent snapshot
get a new one, and records before the latest snapshots are deleted. The rules are in `operations`. Callers are already
authorized.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import trio

from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition, uuid_from_text, uuid_to_text
from kraft.common.internal_topics import SHARE_GROUP_STATE_TOPIC
from kraft.coordinator.coordinator_log import CoordinatorLog
from kraft.coordinator.group.topic_directory import TopicDirectory
from kraft.coordinator.partitioner import partition_for
from kraft.coordinator.pending_batch import Waiter
from kraft.coordinator.runtime import CoordinatorRuntime
from kraft.coordinator.shard import Operation
from kraft.coordinator.share import operations
from kraft.coordinator.share.shard import ShareDraft, ShareShard, ShareShardState
from kraft.coordinator.share.share_coordinator_activity import ShareCoordinatorActivity
from kraft.coordinator.share.share_state import NO_COUNT, NO_OFFSET, SharePartitionKey, StateBatch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import delete_share_group_state_response as deleted
from kraft.protocol.messages import initialize_share_group_state_response as initialized
from kraft.protocol.messages import read_share_group_state_response as read
from kraft.protocol.messages import read_share_group_state_summary_response as summarized
from kraft.protocol.messages import write_share_group_state_response as written
from kraft.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from kraft.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from kraft.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from kraft.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from kraft.protocol.messages.write_share_group_state_request import PartitionData as WrittenPartition
from kraft.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from kraft.world.ports import World
from kraft.world.turns import Turn

KEYS_A_TURN: Final = 200
"""Share partitions served between two pauses; one takes up to 0.1 ms."""
KEYS_AN_OPERATION: Final = 100
"""Limit of share partitions in one operation of a sweep."""

Pending = tuple[Any, Waiter]
"""The result of a partition in a response, and the operation that decides it."""
PruneLog = Callable[[int, int], None]
"""Deletes the records of a partition of `__share_group_state` before an offset. Raises KraftError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinatorConfig:
    """Kafka's keys `share.coordinator.*`."""

    updates_per_snapshot: int
    cold_snapshot_interval_ms: int
    prune_interval_ms: int
    write_timeout_ms: int


class ShareCoordinator:
    """The share coordinator of a broker. `partition_count` returns the number of partitions that `__share_group_state`
    has or would be created with."""

    def __init__(
        self,
        *,
        config: ShareCoordinatorConfig,
        log: CoordinatorLog,
        topics: TopicDirectory,
        partition_count: Callable[[], int],
        prune: PruneLog,
        world: World,
    ) -> None:
        self._config = config
        self._log = log
        self._topics = topics
        self._partition_count = partition_count
        self._prune = prune
        self._clock = world.clock
        self.activity = ShareCoordinatorActivity(world.clock)
        self._redundant: dict[int, int] = {}
        """By partition led here, the offset before which snapshots have made all records redundant."""
        self.runtime: CoordinatorRuntime[ShareShardState] = CoordinatorRuntime(
            SHARE_GROUP_STATE_TOPIC,
            ShareShard(config.updates_per_snapshot),
            log=log,
            world=world,
            write_timeout_ms=config.write_timeout_ms,
        )

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as coordinator_nursery:
            coordinator_nursery.start_soon(self._write_cold_snapshots)
            coordinator_nursery.start_soon(self._prune_logs)
            await self.runtime.run(task_status)

    def partition_for(self, key: SharePartitionKey) -> int:
        """The partition of `__share_group_state` whose leader coordinates the share partition."""
        return partition_for(coordinator_key(key), self._partition_count())

    def on_election(self, partition: int, leader_epoch: int) -> None:
        self.runtime.on_election(partition, leader_epoch)

    def on_resignation(self, partition: int, leader_epoch: int | None = None) -> None:
        self._redundant.pop(partition, None)
        self.runtime.on_resignation(partition, leader_epoch)

    def on_topics_deleted(self, topic_ids: Collection[bytes]) -> None:
        """Delete the states of deleted topics in all shards that this node leads."""
        gone = frozenset(topic_ids)
        self.runtime.walk_all(partial(_forget_topics, gone))

    # The APIs. Each partition of a request has a result of its own.

    async def initialize(
        self, request: InitializeShareGroupStateRequest
    ) -> initialized.InitializeShareGroupStateResponse:
        """Begin new states."""
        whole, pending = initialized.InitializeShareGroupStateResponse(), list[Pending]()
        turn = Turn(KEYS_A_TURN)
        for key, each, result in _places(
            request, whole, initialized.InitializeStateResult, initialized.PartitionResult
        ):
            operation = partial(
                _with_key, operations.initialize, key, state_epoch=each.state_epoch, start_offset=each.start_offset
            )
            self._submit(key, operation, result, pending)
            if turn.is_over():
                await turn.next()
        await _settled(pending)
        return whole

    async def write(self, request: WriteShareGroupStateRequest) -> written.WriteShareGroupStateResponse:
        """Add delivery states."""
        whole, pending = written.WriteShareGroupStateResponse(), list[Pending]()
        turn = Turn(KEYS_A_TURN)
        began = self._clock.now()
        for key, each, result in _places(request, whole, written.WriteStateResult, written.PartitionResult):
            self._submit(key, _writing(key, each), result, pending)
            if turn.is_over(1 + len(each.state_batches)):
                await turn.next()
        await _settled(pending)
        self.activity.wrote(sum(len(topic.partitions) for topic in request.topics), self._clock.now() - began)
        return whole

    async def read(self, request: ReadShareGroupStateRequest) -> read.ReadShareGroupStateResponse:
        """Read states for the leaders of their partitions, and fence the leaders of earlier epochs."""
        whole, pending = read.ReadShareGroupStateResponse(), list[Pending]()
        turn = Turn(KEYS_A_TURN)
        for key, each, result in _places(request, whole, read.ReadStateResult, read.PartitionResult):
            operation = partial(_with_key, operations.read, key, leader_epoch=each.leader_epoch)
            self._submit(key, operation, result, pending)
            if turn.is_over():
                await turn.next()
        for result, state in await _settled(pending):
            result.state_epoch, result.start_offset = state.state_epoch, state.start_offset
            result.state_batches = [
                read.StateBatch(first_offset=first, last_offset=last, delivery_state=delivery, delivery_count=count)
                for first, last, delivery, count in state.batches
            ]
            if turn.is_over(1 + len(state.batches)):
                await turn.next()
        return whole

    async def read_summary(
        self, request: ReadShareGroupStateSummaryRequest
    ) -> summarized.ReadShareGroupStateSummaryResponse:
        """Read start offsets and epochs. A share partition without a state has the start offset -1."""
        whole = summarized.ReadShareGroupStateSummaryResponse()
        turn = Turn(KEYS_A_TURN)
        classes = summarized.ReadStateSummaryResult, summarized.PartitionResult
        for key, _, result in _places(request, whole, *classes):
            self._summarize(key, result)
            if turn.is_over():
                await turn.next()
        return whole

    async def delete(self, request: DeleteShareGroupStateRequest) -> deleted.DeleteShareGroupStateResponse:
        """Delete states."""
        whole, pending = deleted.DeleteShareGroupStateResponse(), list[Pending]()
        turn = Turn(KEYS_A_TURN)
        for key, _, result in _places(request, whole, deleted.DeleteStateResult, deleted.PartitionResult):
            self._submit(key, partial(_with_key, operations.delete, key), result, pending)
            if turn.is_over():
                await turn.next()
        await _settled(pending)
        return whole

    def _submit(self, key: SharePartitionKey, operation: Operation, result: Any, pending: list[Pending]) -> None:
        """Run the operation, and add it to `pending`. A rejection is set in `result`."""
        try:
            self._check(key)
            pending.append((result, self.runtime.submit(self.partition_for(key), operation)))
        except ApiError as refused:
            _refuse(result, refused)

    def _summarize(self, key: SharePartitionKey, result: summarized.PartitionResult) -> None:
        result.start_offset, result.delivery_complete_count = NO_OFFSET, NO_COUNT
        try:
            self._check(key)
            state = self.runtime.read(self.partition_for(key), lambda shard: shard.partitions.get(key))
        except ApiError as refused:
            _refuse(result, refused)
            return
        if state is not None:
            result.start_offset, result.delivery_complete_count = state.start_offset, state.delivery_complete_count
            result.state_epoch, result.leader_epoch = state.state_epoch, state.leader_epoch

    def _check(self, key: SharePartitionKey) -> None:
        """Raises ApiError unless the request names a group, and a partition that exists."""
        if not key.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID, "a share group without a name")
        if key.partition < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
        name = self._topics.topic_name(key.topic_id)
        if name is None or key.partition >= self._topics.partition_count(name):
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {key.partition} of a topic with the id {uuid_to_text(key.topic_id)}",
            )

    # Keeping the topic short.

    async def _write_cold_snapshots(self) -> None:
        """Every `cold_snapshot_interval_ms`, delete the states of topics that no longer exist, and write a snapshot of
        each share partition without a recent one."""
        while True:
            await self._clock.sleep(self._config.cold_snapshot_interval_ms / 1000)
            self.runtime.walk_all(self._forget_missing_topics)
            for partition in self.runtime.partitions():
                if self.runtime.is_active(partition):
                    with self.runtime.set_aside.guard("cold snapshots", str(partition), (KraftError,)):
                        try:
                            await self._write_snapshots(partition)
                        except KraftError:
                            continue  # The partition has moved, or its log refuses: the next round looks again.

    async def _write_snapshots(self, partition: int) -> None:
        """Write a snapshot of each share partition whose latest snapshot is below the high watermark. The records
        before the high watermark are then redundant. Does nothing while there are few. Raises KraftError."""
        place = TopicPartition(SHARE_GROUP_STATE_TOPIC, partition)
        end, start = self._log.high_watermark(place), self._log.log_start_offset(place)
        committed = self.runtime.read(partition, lambda shard: shard.partitions)
        keys = sorted(committed)
        if end - start <= RECORDS_KEPT_PER_KEY * max(1, len(keys)):
            return
        for first in range(0, len(keys), KEYS_AN_OPERATION):
            epochs = {key: committed[key].snapshot_epoch for key in keys[first : first + KEYS_AN_OPERATION]}
            await self.runtime.write(partition, partial(_snapshot_all, epochs))
        if self.runtime.is_active(partition):
            self._redundant[partition] = end

    async def _prune_logs(self) -> None:
        """Every `prune_interval_ms`, delete the records that snapshots have made redundant."""
        while True:
            await self._clock.sleep(self._config.prune_interval_ms / 1000)
            for partition, before in sorted(self._redundant.items()):
                with self.runtime.set_aside.guard("pruning", str(partition), (KraftError,)):
                    try:
                        self._prune(partition, before)
                    except KraftError:
                        continue  # As above.
                    del self._redundant[partition]

    def _forget_missing_topics(self, state: ShareShardState) -> Iterator[Operation]:
        """Delete the states of topics that do not exist. Needed because a sweep for a deleted topic ends when the
        coordinator moves."""
        topic_ids = {key.topic_id for key in sorted(state.partitions)}
        return _forget_topics(
            frozenset(topic_id for topic_id in topic_ids if self._topics.topic_name(topic_id) is None), state
        )


RECORDS_KEPT_PER_KEY: Final = 10
"""A log with at most this number of records for each share partition is not shortened."""


def coordinator_key(key: SharePartitionKey) -> str:
    """The name by which a share coordinator is looked up (FindCoordinator, key type 2)."""
    return f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"


def key_of_name(name: str) -> SharePartitionKey | None:
    """The share partition of such a name, None if it is malformed. A group's name may have colons itself."""
    parts = name.rstrip(":").rsplit(":", 2)
    group_id, topic_id, partition = parts if len(parts) == 3 else ("", "", "")
    if not group_id.strip() or not _PARTITION.fullmatch(partition) or not -(1 << 31) <= int(partition) < 1 << 31:
        return None
    try:
        return SharePartitionKey(group_id, uuid_from_text(topic_id), int(partition))
    except ValueError:
        return None


_PARTITION: Final = re.compile("[+-]?[0-9]{1,10}")


async def _settled(pending: list[Pending]) -> list[tuple[Any, Any]]:
    """Wait for the operations. Returns the result and the response of each that is committed; a failure is set in its
    result."""
    committed: list[tuple[Any, Any]] = []
    for result, waiter in pending:
        try:
            committed.append((result, await waiter.wait()))
        except ApiError as refused:
            _refuse(result, refused)
    return committed


def _places(
    request: Any, whole: Any, topic_class: Callable[..., Any], result_class: Callable[..., Any]
) -> Iterator[tuple[SharePartitionKey, Any, Any]]:
    """Yield each partition of a request: its key, its part of the request, and its result, which is added to the
    response `whole`."""
    for topic in request.topics:
        results: list[Any] = []
        whole.results.append(topic_class(topic_id=topic.topic_id, partitions=results))
        for each in topic.partitions:
            result = result_class(partition=each.partition)
            results.append(result)
            yield SharePartitionKey(request.group_id, bytes(topic.topic_id), each.partition), each, result


def _refuse(result: Any, refused: ApiError) -> None:
    result.error_code, result.error_message = refused.code, refused.message


def _with_key(operation: Callable[..., Any], key: SharePartitionKey, draft: ShareDraft, **fields: int) -> Any:
    return operation(draft, key, **fields)


def _writing(key: SharePartitionKey, wanted: WrittenPartition) -> Operation:
    def write(draft: ShareDraft) -> None:
        operations.write(
            draft,
            key,
            state_epoch=wanted.state_epoch,
            leader_epoch=wanted.leader_epoch,
            start_offset=wanted.start_offset,
            delivery_complete_count=wanted.delivery_complete_count,
            batches=[
                StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
                for each in wanted.state_batches
            ],
        )

    return write


def _snapshot_all(epochs: Mapping[SharePartitionKey, int], draft: ShareDraft) -> None:
    for key, snapshot_epoch in epochs.items():
        operations.write_cold_snapshot(draft, key, snapshot_epoch)


def _forget_topics(topic_ids: frozenset[bytes], state: ShareShardState) -> Iterator[Operation]:
    """Delete the states of the topics, a limited number in one operation."""
    keys = sorted(key for key in state.partitions if key.topic_id in topic_ids)
    for first in range(0, len(keys), KEYS_AN_OPERATION):
        yield partial(_delete_all, keys[first : first + KEYS_AN_OPERATION])


def _delete_all(keys: Collection[SharePartitionKey], draft: ShareDraft) -> None:
    for key in keys:
        operations.delete(draft, key)
