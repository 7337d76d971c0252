"""An unanswered ShareFetch: it acquires records of the session's partitions, or waits until there are some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraft.common.errors import ApiError
from kraft.handlers.errors import EXPECTED, code_of
from kraft.handlers.fetch.partition_reader import NO_FAILURE
from kraft.handlers.registry import RequestContext
from kraft.handlers.share.acknowledging import check_topic
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.record_batch import RecordBatch
from kraft.replication.partition import CONSUMER, READ_COMMITTED
from kraft.replication.partition_traffic import CONSUMERS
from kraft.replication.purgatory import FetchWaiter
from kraft.share.fetched_batches import aborted_ranges, batches_in_memory, bytes_between, read_batches
from kraft.share.led_share_partition import LedSharePartition
from kraft.share.share_partition import Acquired
from kraft.share.share_partitions import LOAD_AGAIN, HostedSharePartition
from kraft.share.share_sessions import Place, ShareSession
from kraft.world.turns import Turn

if TYPE_CHECKING:
    from kraft.handlers.services import BrokerServices

STRICT: Final = 1
"""ShareAcquireMode: at most MaxRecords records (KIP-1206)."""
PARTITIONS_A_TURN: Final = 20
"""Share partitions read between two pauses; one may read a megabyte."""
READ_BYTES_MAX: Final = 1 << 20
"""Limit of one read of a partition, unless one batch is larger."""


class SharedRecords(NamedTuple):
    """The result of one partition: record batches and the ranges that the member has acquired, or an error."""

    place: Place
    records: bytes = b""
    acquired: Sequence[Acquired] = ()
    problem: Exception | None = None


class PendingShareFetch:
    """One ShareFetch over the partitions of a session."""

    def __init__(self, request: Any, session: ShareSession, context: RequestContext, broker: BrokerServices) -> None:
        self._request = request
        self._session = session
        self._places = list(session.partitions)
        self._context = context
        self._broker = broker
        self._shares = broker.shares
        self._settings = broker.shares.settings_of(request.group_id)
        self._bytes_max = min(request.max_bytes, broker.fetch_bytes_max)
        self._counted: set[Place] = set()

    async def serve(self) -> list[SharedRecords]:
        """Return the partitions with records or errors. Waits until there is one, up to the request's time. Acquires
        nothing once the session is over."""
        request, clock = self._request, self._broker.world.clock
        if not self._places or request.max_records <= 0 or self._bytes_max <= 0:
            return []
        deadline = clock.now() + max(0, request.max_wait_ms) / 1000
        while True:
            waiter = FetchWaiter(1, is_follower=False)
            opened: list[HostedSharePartition] = []
            failed: list[SharedRecords] = []
            try:
                turn = Turn(PARTITIONS_A_TURN)
                for place in self._places:
                    self._open(place, waiter, opened, failed)
                    if turn.is_over():
                        await turn.next()
                is_last = self._session.is_over or clock.now() >= deadline
                found = []
                if is_last or await self._is_enough(opened):
                    found = await self._acquire(opened)
                if found or failed or is_last:
                    return [*found, *failed]
                with clock.move_on_at(deadline):
                    await waiter.event.wait()
            finally:
                for hosted in opened:
                    hosted.waiters.pop(waiter, None)
                    hosted.partition.waiters.remove_fetch(waiter)

    def _open(
        self, place: Place, waiter: FetchWaiter, opened: list[HostedSharePartition], failed: list[SharedRecords]
    ) -> None:
        """Open the share partition, and wake the waiting request when it changes."""
        try:
            check_topic(place, self._context, self._broker)
            hosted = self._shares.open(self._request.group_id, place)
        except EXPECTED as problem:
            failed.append(SharedRecords(place, problem=problem))
            return
        traffic = hosted.partition.traffic
        if place not in self._counted:
            self._counted.add(place)
            traffic.share_fetches += 1
        if hosted.failure is not None:
            self._shares.forget(hosted)
            if hosted.failure.code not in LOAD_AGAIN:
                traffic.failed_share_fetches += hosted.failure.code not in NO_FAILURE
                failed.append(SharedRecords(place, problem=hosted.failure))
            return
        hosted.waiters[waiter] = None
        hosted.partition.waiters.add_fetch(waiter)
        opened.append(hosted)

    async def _is_enough(self, opened: Sequence[HostedSharePartition]) -> bool:
        """Whether the partitions have `min_bytes` to acquire."""
        missing = min(self._request.min_bytes, self._bytes_max)
        if missing <= 1:
            return True
        turn = Turn(PARTITIONS_A_TURN)
        for hosted in opened:
            led = self._ready(hosted)
            if led is not None:
                try:
                    offset = led.window.next_fetch_offset()
                    log = hosted.partition.log
                    if log.log_start_offset <= offset <= log.log_end_offset:
                        missing -= self._read(hosted, offset, missing).size
                except EXPECTED:
                    return True  # Acquiring meets the error again, and tells it.
            if missing <= 0:
                return True
            if turn.is_over():
                await turn.next()
        return False

    def _ready(self, hosted: HostedSharePartition) -> LedSharePartition | None:
        """The share partition if it is loaded and records may be acquired from it."""
        led = hosted.led
        if led is None or not hosted.is_loaded or led.ended is not None:
            return None
        window = led.window
        if window.in_flight >= self._settings.limits.record_locks_max and (
            window.next_fetch_offset() == window.end_offset
        ):
            return None
        return led

    async def _acquire(self, opened: Sequence[HostedSharePartition]) -> list[SharedRecords]:
        """Acquire records, partition by partition, up to the request's limits of records and bytes."""
        found: list[SharedRecords] = []
        records_left, bytes_left = self._request.max_records, self._bytes_max
        turn = Turn(PARTITIONS_A_TURN)
        for hosted in opened:
            if records_left <= 0 or bytes_left <= 0:
                break
            led = self._ready(hosted)
            if led is None:
                continue
            place = hosted.key.topic_id, hosted.key.partition
            try:
                shared = await self._acquire_of(hosted, led, place, records_left, bytes_left, is_first=not found)
            except EXPECTED as problem:
                self._broker.replicas.handle_storage_error(
                    problem, hosted.partition.topic, hosted.partition.index, "read", hosted.partition.log
                )
                hosted.partition.traffic.failed_share_fetches += code_of(problem) not in NO_FAILURE
                shared = SharedRecords(place, problem=problem)
            if shared is not None:
                hosted.partition.traffic.bytes_out[CONSUMERS] += len(shared.records)
                found.append(shared)
                records_left -= sum(each.last + 1 - each.first for each in shared.acquired)
                bytes_left -= len(shared.records)
            if turn.is_over(1 + (0 if shared is None else len(shared.records) >> 16)):
                await turn.next()
        return found

    async def _acquire_of(
        self,
        hosted: HostedSharePartition,
        led: LedSharePartition,
        place: Place,
        records_max: int,
        bytes_max: int,
        *,
        is_first: bool,
    ) -> SharedRecords | None:
        """Acquire records of one partition. None if it has none. Raises ApiError, NotLeader, StorageError, OSError."""
        partition, log = hosted.partition, hosted.partition.log
        partition.check_leader()
        if led.window.start_offset < log.log_start_offset:
            led.window.log_started_at(log.log_start_offset)
        offset = led.window.next_fetch_offset()
        if offset > log.log_end_offset:
            return None  # The log was truncated by an unclean election; it grows again.
        aborted: Sequence[tuple[int, int]] = ()
        committed = self._settings.isolation == READ_COMMITTED
        try:
            data = self._read(hosted, offset, bytes_max, is_first=is_first)
            batches = read_batches(data, records_max, led.window.count_acquirable)
            if committed and batches:
                bound = log.last_stable_offset
                aborted = [
                    (each.producer_id, each.first_offset) for each in log.aborted_transactions(offset, bound, data)
                ]
        except ApiError as problem:
            remote = self._broker.replicas.remote
            if problem.code != ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE or remote is None:
                raise
            tiered = await remote.reads.fetch(
                partition, offset, min(bytes_max, READ_BYTES_MAX), min_one_message=is_first, committed=committed
            )
            batches = batches_in_memory(bytes(tiered.records), records_max, led.window.count_acquirable)
            aborted = tiered.aborted or ()
        return self._take(led, place, offset, batches, aborted, records_max)

    def _read(self, hosted: HostedSharePartition, offset: int, bytes_max: int, *, is_first: bool = True) -> Any:
        return hosted.partition.read(
            offset,
            min(bytes_max, READ_BYTES_MAX),
            self._settings.isolation,
            min_one_message=is_first,
            replica_id=CONSUMER,
        )

    def _take(
        self,
        led: LedSharePartition,
        place: Place,
        offset: int,
        batches: Sequence[RecordBatch],
        aborted: Sequence[tuple[int, int]],
        records_max: int,
    ) -> SharedRecords | None:
        """Acquire records of the batches that were read from `offset`. Raises ApiError."""
        if self._session.is_over:
            return None
        acquired = led.acquire(
            self._request.member_id,
            offset,
            [(each.base_offset, each.last_offset) for each in batches],
            records_max,
            aborted=aborted_ranges(batches, aborted) if aborted else (),
            is_strict=self._request.share_acquire_mode == STRICT,
        )
        if not acquired:
            return None
        records = bytes_between(batches, acquired[0].first, acquired[-1].last)
        return SharedRecords(place, records, acquired)
