"""A follower's state of one partition: where to truncate its log, and how to append fetched records. `replica_fetcher`
sends the requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kraft.common.errors import ApiError, ProtocolError
from kraft.common.metadata_versions import MetadataVersion
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
"""Doubled after each error up to replica.fetch.backoff.ms. Most errors come from leaders that are moments behind in the
metadata."""
FAILURES_TO_TELL: Final = 6
"""Errors in a row before they are logged. Fewer are normal whenever a leader moves."""


class Following:
    """A followed partition in one leader epoch.

    After `failures` errors in a row it is not fetched before the time `not_before`. `leader_high_watermark` is the
    newest one received from the leader.
    """

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
        """The number of committed records that this replica has not copied yet."""
        return max(0, self.leader_high_watermark - self.partition.log.log_end_offset)

    @property
    def is_unsynced(self) -> bool:
        """Whether flush.messages requires a sync before the whole log may be acknowledged. Always False when
        flush.messages is not set."""
        return self.partition.durable_end() < self.partition.log.log_end_offset

    def failed(self, now: float, backoff_seconds_max: float) -> bool:
        """Set the next back-off, which grows with each failure in a row. Returns True when the failures have become
        frequent enough to be logged."""
        self.not_before = now + min(backoff_seconds_max, FIRST_BACKOFF_SECONDS * 2 ** min(self.failures, 10))
        self.failures += 1
        return self.failures == FAILURES_TO_TELL

    def wanted(self) -> Wanted:
        log = self.partition.log
        return Wanted(self.leader_epoch, log.log_end_offset, log.leader_epoch_cache.latest_epoch, log.log_start_offset)


class Truncation(NamedTuple):
    """The offsets that a log loses in a truncation, from `start_offset` to `end_offset` (exclusive).

    The first lost record was written in `first_epoch`; -1 if that is unknown.
    """

    start_offset: int
    end_offset: int
    high_watermark: int
    """The replica's high watermark before the truncation."""
    first_epoch: int


class TruncationListener(Protocol):
    """Called for every log that a fetcher truncates."""

    def truncating(self, partition: Partition, truncation: Truncation) -> None:
        """Called before the truncation. Raises StorageError to postpone it."""
        ...

    def truncated(self, partition: Partition, truncation: Truncation) -> None:
        """Called after the truncation."""
        ...


class OffsetRequest(NamedTuple):
    """The common parts of a follower's offset requests."""

    replica_id: int
    version_max: int
    """The highest version of ListOffsets at the finalized metadata.version."""
    timeout_seconds: float


class FetcherSettings:
    """The settings of a fetcher. Settings that can change at run time are read at each use."""

    def __init__(
        self,
        *,
        endpoint: Callable[[int], tuple[str, int] | None],
        broker_epoch: Callable[[], int],
        limits: FetchLimits,
        backoff_seconds: float,
        socket_timeout_seconds: float,
        truncations: TruncationListener,
        metadata_version: Callable[[], MetadataVersion],
    ) -> None:
        """`endpoint` returns a broker's current address for inter-broker requests, or None if it is not known.
        `metadata_version` returns the finalized level, which bounds the versions of requests to a leader."""
        self.endpoint = endpoint
        self.broker_epoch = broker_epoch
        self.limits = limits
        self.backoff_seconds = backoff_seconds
        self.socket_timeout_seconds = socket_timeout_seconds
        self.truncations = truncations
        self.metadata_version = metadata_version

    def fetch_version(self) -> int:
        """Return the highest version of Fetch at the finalized metadata.version."""
        return self.metadata_version().fetch_version

    def offset_request(self, replica_id: int) -> OffsetRequest:
        """Return the common parts of an offset request now."""
        return OffsetRequest(replica_id, self.metadata_version().list_offsets_version, self.socket_timeout_seconds)


def truncation_offset(log: UnifiedLog, leader_epoch: int, leader_end: int) -> int:
    """Return the offset at which to truncate a diverging log (KIP-279).

    `leader_epoch` is the largest epoch of the leader that is not above our last epoch. It ends at `leader_end` on the
    leader.

    If we have that epoch, both logs agree up to its end on the leader or here, whichever is lower. If we do not, our
    later epochs are truncated, and the next fetch narrows it down further.
    """
    own_end, own_epoch = log.end_offset_for_epoch(leader_epoch)
    if own_epoch == -1:
        return min(leader_end, log.log_end_offset)
    if own_epoch != leader_epoch:
        return min(own_end, log.log_end_offset)
    return min(own_end, leader_end, log.log_end_offset)


async def append_fetched(replicas: ReplicaManager, partition: Partition, data: PartitionData) -> None:
    """Append the records of a leader's response. They are not durable when this returns, and so not acknowledged.

    If the disk is full, the log start offset still follows the leader's, so that retention can free space. Raises
    ApiError, NotLeader, StorageError.
    """
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
        # A problem of this partition, not of the connection: the other partitions of the response continue.
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: malformed Fetch response: {problem}") from problem
    if info is not None:
        partition.traffic.replication_bytes_in += len(records)


async def _append(
    replicas: ReplicaManager, partition: Partition, data: PartitionData, records: memoryview
) -> LogAppendInfo | None:
    """Append the records. An empty log that starts inside the first batch gets the whole batch and keeps its start
    offset."""
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
    """Whether `log` is empty and its start offset lies inside the first batch of `records`. DeleteRecords can put the
    start of a leader's log inside a batch."""
    if log.log_start_offset != log.log_end_offset or log.is_appending:
        return False
    first = next(batches(records, partial_tail=True), None)
    return first is not None and first.base_offset < log.log_end_offset <= first.last_offset
