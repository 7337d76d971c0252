"""The share partitions of the partitions that a broker leads, and the share sessions of its clients (KIP-932).

A share partition is loaded when the first member fetches from it. It ends when the broker no longer leads the partition
in that leader epoch, or when its share coordinator fences it. The next fetch then loads it again, or gets an error with
the new leader. The log and the share partition wake the fetches that wait for records.

The letters of records that a group has given up (KIP-1191) are written by one task for each share partition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from kraft.common.errors import ApiError, KraftError, NotLeader, StorageError
from kraft.common.ids import uuid_to_text
from kraft.coordinator.share.share_state import SharePartitionKey
from kraft.coordinator.share.share_states import DeliveryStates
from kraft.protocol.error_codes import ErrorCode
from kraft.replication.offset_lookups import find_by_time
from kraft.replication.partition import CONSUMER, Partition
from kraft.replication.purgatory import FetchWaiter
from kraft.replication.replica_manager import ReplicaManager
from kraft.share.acknowledgement import Acknowledgement
from kraft.share.dead_letters import DeadLetters
from kraft.share.led_share_partition import LedSharePartition
from kraft.share.share_activity import ShareActivity
from kraft.share.share_group_settings import EARLIEST, LATEST, ShareGroupSettings
from kraft.share.share_sessions import Place, SessionKey, ShareSessions
from kraft.world.ports import World

LOAD_AGAIN: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    )
)
"""Transient failures of the share coordinator. Members get no error, and their next fetch loads the share partition
again."""
FENCED: Final = frozenset((ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH))
RETRY_SECONDS: Final = 1.0
"""Pause after a failed write until expired locks are checked again."""
LETTERS_AT_ONCE: Final = 500
"""Letters of a share partition written before their records are archived. After a crash these may be written again."""
SWEEP_SECONDS: Final = 30.0
"""How often share partitions that this broker no longer leads are dropped, if no request finds them before."""


class HostedSharePartition:
    """One share partition on its leader: its state once it is loaded, and the fetches that wait for it."""

    def __init__(self, key: SharePartitionKey, partition: Partition) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.is_loaded = False
        self.locks_changed = trio.Event()
        """Set when locks may have to be expired earlier than at `looks_at`."""
        self.looks_at = math.inf
        """The time of the next check for expired locks, on the node's monotonic clock."""
        self.waiters: dict[FetchWaiter, None] = {}
        self.led: LedSharePartition | None = None
        self.letters: trio.CancelScope | None = None
        """The scope of the task that writes letters; None without one."""
        self.failure: ApiError | None = None
        """The error of a failed load. The next fetch returns it; then the share partition may be loaded again."""

    def wake(self) -> None:
        """Wake the waiting fetches, and the task that expires locks."""
        self.locks_changed.set()
        for waiter in list(self.waiters):
            waiter.wake()

    def locked(self, deadline: float) -> None:
        """Record that locks end at `deadline`, on the node's monotonic clock. Wakes the task that expires locks if that
        is earlier than its next check."""
        if deadline < self.looks_at:
            self.locks_changed.set()

    @property
    def is_current(self) -> bool:
        """Whether the broker still leads the partition in the same leader epoch."""
        return self.partition.is_leader and self.partition.leader_epoch == self.leader_epoch


class SharePartitions:
    """The share partitions of one broker. Owned by the broker's loop."""

    def __init__(
        self,
        replicas: ReplicaManager,
        states: DeliveryStates,
        settings: Callable[[str], ShareGroupSettings],
        letters: DeadLetters,
        sessions_max: int,
        world: World,
    ) -> None:
        """`settings` returns the present settings of a group."""
        self._letters = letters
        self.sessions = ShareSessions(sessions_max)
        self.activity = ShareActivity()
        self._replicas = replicas
        self._states = states
        self._settings = settings
        self._world = world
        self._hosted: dict[SharePartitionKey, HostedSharePartition] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Load share partitions and expire locks until cancelled."""
        async with trio.open_nursery() as share_nursery:
            self._nursery = share_nursery
            task_status.started()
            try:
                while True:
                    await self._world.clock.sleep(SWEEP_SECONDS)
                    for hosted in list(self._hosted.values()):
                        if not hosted.is_current:
                            self._end(hosted, _moved(hosted.partition))
            finally:
                self._nursery = None

    def settings_of(self, group_id: str) -> ShareGroupSettings:
        """The group's present settings."""
        return self._settings(group_id)

    def hosted(self) -> list[HostedSharePartition]:
        """The share partitions that are loaded or loading, in order."""
        return [self._hosted[key] for key in sorted(self._hosted)]

    # Finding.

    def partition_at(self, place: Place) -> Partition:
        """Return the partition, which this broker leads. Raises ApiError UNKNOWN_TOPIC_ID or
        UNKNOWN_TOPIC_OR_PARTITION, NotLeader, StorageError."""
        topic_id, index = place
        name = self._replicas.topic_names.get(topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {uuid_to_text(topic_id)}")
        partition = self._replicas.partition(name, index)
        partition.check_leader()
        return partition

    def open(self, group_id: str, place: Place) -> HostedSharePartition:
        """Return the share partition. Starts to load it if that has not happened yet. Raises as `partition_at` does."""
        key, partition = SharePartitionKey(group_id, *place), self.partition_at(place)
        hosted = self._current(key, partition)
        if hosted is None:
            assert self._nursery is not None, "run() has not begun"
            hosted = self._hosted[key] = HostedSharePartition(key, partition)
            self._nursery.start_soon(self._live, hosted)
        return hosted

    def forget(self, hosted: HostedSharePartition) -> None:
        """Allow a share partition that could not be loaded to be loaded again."""
        if self._hosted.get(hosted.key) is hosted:
            del self._hosted[hosted.key]

    def _current(self, key: SharePartitionKey, partition: Partition) -> HostedSharePartition | None:
        """The share partition in the partition's present leader epoch; None if it is not hosted."""
        hosted = self._hosted.get(key)
        if hosted is not None and (hosted.partition is not partition or not hosted.is_current):
            self._end(hosted, _moved(partition))
            return None
        return hosted

    def _end(self, hosted: HostedSharePartition, why: ApiError) -> None:
        if self._hosted.get(hosted.key) is hosted:
            del self._hosted[hosted.key]
        if hosted.led is not None:
            hosted.led.end(why)
            if hosted.letters is not None and not hosted.led.given_up(1):
                hosted.letters.cancel()  # The next leader writes them.
        hosted.wake()

    # A share partition's life.

    async def _live(self, hosted: HostedSharePartition) -> None:
        """Load the share partition, then expire its locks until it ends."""
        led = hosted.led = LedSharePartition(
            self._states,
            hosted.key,
            hosted.leader_epoch,
            self._world.clock,
            lambda: self._settings(hosted.key.group_id).limits,
            hosted.wake,
            hosted.locked,
        )
        began = self._world.clock.now()
        try:
            await led.load(partial(self._first_offset, hosted))
        except (KraftError, OSError) as problem:
            why = _failure_of(problem)
            hosted.failure = _moved(hosted.partition) if why.code in FENCED else why
            hosted.wake()
            return
        self.activity.load_seconds.observe(self._world.clock.now() - began)
        hosted.is_loaded = True
        hosted.wake()
        while self._hosted.get(hosted.key) is hosted:
            try:
                pause_s = await self._expire(hosted, led)
            except ApiError:
                pause_s = RETRY_SECONDS  # Written again then, unless the share partition has ended.
            self._write_letters_later(hosted, led)
            if led.ended is not None:
                self._end(hosted, led.ended)
                return
            hosted.locks_changed, hosted.looks_at = trio.Event(), self._world.clock.now() + pause_s
            with self._world.clock.move_on_at(hosted.looks_at):
                await hosted.locks_changed.wait()

    async def _expire(self, hosted: HostedSharePartition, led: LedSharePartition) -> float:
        """Release records whose lock has expired. Returns the seconds until the next lock expires. Raises ApiError."""
        deadline = led.next_deadline_s()
        now = self._world.clock.now()
        if deadline is not None and deadline <= now:
            self.activity.count_timeouts(hosted.key, await led.expire())
            deadline = led.next_deadline_s()
        return SWEEP_SECONDS if deadline is None else max(0.0, deadline - self._world.clock.now())

    def _write_letters_later(self, hosted: HostedSharePartition, led: LedSharePartition) -> None:
        """Start to write letters if some are due and no task writes them."""
        if self._nursery is not None and hosted.letters is None and led.given_up(1):
            hosted.letters = trio.CancelScope()
            self._nursery.start_soon(self._write_letters, hosted, led)

    async def _write_letters(self, hosted: HostedSharePartition, led: LedSharePartition) -> None:
        """Write the letters that are due, and archive their records. A record is archived as well if its letter has
        failed permanently."""
        assert hosted.letters is not None
        with hosted.letters:
            while given_up := led.given_up(LETTERS_AT_ONCE):
                await self._letters.write(hosted.key, hosted.partition, given_up)
                while led.given_up(1):
                    try:
                        await led.archive(given_up)
                        break
                    except ApiError:  # Not durable: another leader would write the letters again.
                        if led.ended is None:
                            await self._world.clock.sleep(RETRY_SECONDS)
        hosted.letters = None
        self._end_if_unused(hosted, led)

    async def _first_offset(self, hosted: HostedSharePartition) -> int:
        """The start offset of a group that has no offset in the partition, by `share.auto.offset.reset`. Raises
        KraftError, OSError."""
        settings, partition = self._settings(hosted.key.group_id), hosted.partition
        end = partition.fetchable_end(settings.isolation, CONSUMER)
        if settings.offset_reset == EARLIEST:
            return partition.log.log_start_offset
        if settings.offset_reset == LATEST:
            return end
        since_ms = self._world.clock.wall_ms() - settings.offset_reset
        found = await find_by_time(self._replicas, partition, max(0, since_ms))
        return end if found is None else min(found[1], end)

    # What members ask for.

    async def acknowledge(
        self, group_id: str, member_id: str, place: Place, acknowledgements: Sequence[Acknowledgement]
    ) -> None:
        """Apply acknowledgements of a member. Returns once they are durable. Raises ApiError, NotLeader, StorageError;
        the member then holds the records until their lock expires."""
        hosted = self._current(SharePartitionKey(group_id, *place), self.partition_at(place))
        if hosted is None or hosted.led is None or not hosted.is_loaded:
            raise ApiError(
                ErrorCode.INVALID_RECORD_STATE, "the records are not held: this leader has delivered none of them"
            )
        try:
            await hosted.led.acknowledge(member_id, acknowledgements)
        except ApiError as problem:
            if problem.code in FENCED:
                raise _moved(hosted.partition) from problem
            raise
        self.activity.count_acknowledgements(acknowledgements)

    def connection_left(self, connection: object) -> None:
        """End the sessions of a connection that has closed, and release what their members hold."""
        for key in self.sessions.connection_ended(connection):
            self.release_later(key)

    def release_later(self, key: SessionKey) -> None:
        """Release all records that a member without a session holds, without waiting; also those of partitions that
        its session has forgotten. Records that could not be released become available when their lock expires."""
        if self._nursery is not None:
            for hosted in self.hosted():
                if hosted.key.group_id == key.group_id and hosted.led is not None and hosted.is_loaded:
                    self._nursery.start_soon(self._release, hosted, hosted.led, key.member_id)

    async def _release(self, hosted: HostedSharePartition, led: LedSharePartition, member_id: str) -> None:
        """Release the records that the member holds. A share partition that no other member fetches from is dropped, so
        that the offsets of a group without members can be altered. The next member loads it again."""
        try:
            await led.release(member_id)
        except ApiError:
            return  # The locks expire.
        self._end_if_unused(hosted, led)

    def _end_if_unused(self, hosted: HostedSharePartition, led: LedSharePartition) -> None:
        key = hosted.key
        if led.is_idle and not self.sessions.has(key.group_id, (key.topic_id, key.partition)):
            self._end(hosted, _moved(hosted.partition))

    def end_all(self) -> None:
        """End all sessions and share partitions, because share groups were disabled."""
        self.sessions.clear()
        for hosted in self.hosted():
            self._end(hosted, ApiError(ErrorCode.UNSUPPORTED_VERSION, "share groups are switched off"))


def _failure_of(problem: KraftError | OSError) -> ApiError:
    """The error that members get when the load has failed. Clients retry after the errors of a moved leader and of a
    failed disk."""
    if isinstance(problem, ApiError):
        return problem
    if isinstance(problem, NotLeader):
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(problem))
    if isinstance(problem, StorageError | OSError):
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))


def _moved(partition: Partition) -> ApiError:
    return ApiError(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"{partition}: broker {partition.leader_id} leads in epoch {partition.leader_epoch}",
    )
