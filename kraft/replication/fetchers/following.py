"""What a follower knows of a partition that it follows, where its log must be cut, and how it grows.
`replica_fetcher` asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kraft.common.errors import ApiError, ProtocolError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_response import PartitionData
from kraft.protocol.records.record_batch import batches
from kraft.replication.logs.writer import QueuedAppend
from kraft.replication.partition import Partition
from kraft.replication.sessions.fetch_session_handler import FetchLimits, Wanted
from kraft.storage.log_append import LogAppendInfo
from kraft.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from kraft.replication.replica_manager import ReplicaManager


FIRST_BACKOFF_SECONDS: Final = 0.02
"""After an error: most are of leaders that are about to read what the follower has read. Doubled up to
replica.fetch.backoff.ms."""
FAILURES_TO_TELL: Final = 6
"""In a row; fewer happen whenever leaders move."""


class Following:
    """A partition that is followed, in one leader epoch. `not_before` is when it may be asked for again after
    `failures` errors in a row. `leader_high_watermark` is the newest that the leader has sent."""

    __slots__ = ("failures", "is_asked", "leader_epoch", "leader_high_watermark", "not_before", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.leader_high_watermark = 0
        self.not_before = 0.0
        self.failures = 0
        self.is_asked = False

    @property
    def lag(self) -> int:
        """Committed records that this replica has yet to copy."""
        return max(0, self.leader_high_watermark - self.partition.log.log_end_offset)

    @property
    def is_unsynced(self) -> bool:
        """Whether flush.messages forbids to acknowledge all of the log yet. Where it asks for nothing, never."""
        return self.partition.durable_end() < self.partition.log.log_end_offset

    def failed(self, now: float, backoff_seconds_max: float) -> bool:
        """Wait, longer after each failure in a row. Whether there have been so many that somebody should hear of it."""
        self.not_before = now + min(backoff_seconds_max, FIRST_BACKOFF_SECONDS * 2 ** min(self.failures, 10))
        self.failures += 1
        return self.failures == FAILURES_TO_TELL

    def wanted(self) -> Wanted:
        log = self.partition.log
        return Wanted(self.leader_epoch, log.log_end_offset, log.latest_epoch, log.log_start_offset)


class Truncation(NamedTuple):
    """What a log had and gave up, from `start_offset` to `end_offset` (exclusive): the first of it was written in
    `first_epoch`, -1 where that is unknown."""

    start_offset: int
    end_offset: int
    high_watermark: int
    """Up to here the log was known to be committed."""
    first_epoch: int


class TruncationListener(Protocol):
    """Hears of every log that a fetcher truncates."""

    def truncating(self, partition: Partition, truncation: Truncation) -> None:
        """Before it happens. Raises StorageError to have it put off."""
        ...

    def truncated(self, partition: Partition, truncation: Truncation) -> None:
        """Afterwards."""
        ...


class FetcherSettings:
    """The settings of a fetcher. Those that may change while the broker runs are read afresh."""

    def __init__(
        self,
        *,
        endpoint: Callable[[int], tuple[str, int] | None],
        broker_epoch: Callable[[], int],
        limits: FetchLimits,
        backoff_seconds: float,
        socket_timeout_seconds: float,
        truncations: TruncationListener,
    ) -> None:
        """`endpoint` tells where a broker listens for other brokers now, None where it is not known."""
        self.endpoint = endpoint
        self.broker_epoch = broker_epoch
        self.limits = limits
        self.backoff_seconds = backoff_seconds
        self.socket_timeout_seconds = socket_timeout_seconds
        self.truncations = truncations


def truncation_offset(log: UnifiedLog, leader_epoch: int, leader_end: int) -> int:
    """Where to cut a log whose leader's largest epoch not beyond our last is `leader_epoch`, ending at `leader_end`
    (KIP-279).

    If we know that epoch, we agree up to where it ends first, here or there; if not, what we have of later epochs
    goes, and the next fetch finds out more.
    """
    own_end, own_epoch = log.end_offset_for_epoch(leader_epoch)
    if own_epoch == -1:
        return min(leader_end, log.log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end, log.log_end_offset)
    return min(own_end, leader_end, log.log_end_offset)


async def append_fetched(replicas: ReplicaManager, partition: Partition, data: PartitionData) -> None:
    """Take over what the leader sent: not durable yet, so not acknowledged either. Where the disk is full, the log
    still starts where the leader's does, so that retention can make room. Raises ApiError, NotLeader, StorageError."""
    records = memoryview(data.records or b"")
    log, epoch = partition.log, partition.leader_epoch
    try:
        info = await _append(replicas, partition, data, records)
    except ApiError as problem:
        is_same = partition.log is log and not log.is_appending and partition.leader_epoch == epoch
        if problem.code == ErrorCode.KAFKA_STORAGE_ERROR and is_same:
            partition.followed(data.high_watermark, data.log_start_offset)
        raise
    except ProtocolError as problem:
        # This partition's, and no fault of the connection: the others of the answer go on.
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: a bad Fetch answer: {problem}") from problem
    if info is not None:
        partition.traffic.replication_bytes_in += len(records)


async def _append(
    replicas: ReplicaManager, partition: Partition, data: PartitionData, records: memoryview
) -> LogAppendInfo | None:
    """An empty log that starts inside the first batch gets the whole batch, and keeps its start offset."""
    log, now_ms = partition.log, replicas.world.clock.wall_ms()
    start = log.log_start_offset if starts_within(log, records) else None
    if start is not None:
        base_offset = next(batches(records, partial_tail=True)).base_offset
        replicas.logs.truncate_fully_and_start_at(log, base_offset, now_ms=now_ms)
    appended = replicas.writer.append_as_follower(
        partition, records, data.high_watermark, data.log_start_offset, now_ms
    )
    info = await appended if isinstance(appended, QueuedAppend) else appended
    if start is not None:
        log.follow_log_start(start)
    return info


def starts_within(log: UnifiedLog, records: memoryview) -> bool:
    """Whether `log` is empty and starts in the middle of the first batch of `records`, where DeleteRecords may put
    the start of a leader's log."""
    if log.log_start_offset != log.log_end_offset or log.is_appending:
        return False
    first = next(batches(records, partial_tail=True), None)
    return first is not None and first.base_offset < log.log_end_offset <= first.last_offset
