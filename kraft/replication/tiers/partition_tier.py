"""Remote-tier counters of one replica: plain integers, read by a metrics scrape, with the meaning of Kafka's metrics of
tiered storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.remote_retention import Expiry

if TYPE_CHECKING:
    from kraft.replication.partition import Partition
    from kraft.storage.log_segment import LogSegment

ERROR_CHARS_MAX: Final = 300
COUNTERS: Final = (
    "aux_state_builds",
    "copied_bytes",
    "copies",
    "deletes",
    "failed_aux_state_builds",
    "failed_copies",
    "failed_deletes",
    "failed_fetches",
    "fetched_bytes",
    "fetches",
)
"""The fields of a PartitionTier that never fall."""
NO_REASON: Final = "no reason given"


class PartitionTier:
    """Remote-tier counters since the replica was created on this broker. Gauges are those of the last round in which
    this replica led.

    A request is a segment that is copied, deleted, or read from. The auxiliary state is what a follower reads from the
    remote tier to start after the remote records. The copy lag counts closed segments that are only on the local disk.
    The delete lag counts segments that are due for deletion from the store.
    """

    __slots__ = (
        "aux_state_builds",
        "copied_bytes",
        "copies",
        "copy_lag_bytes",
        "copy_lag_segments",
        "delete_lag_bytes",
        "delete_lag_segments",
        "deletes",
        "failed_aux_state_builds",
        "failed_copies",
        "failed_deletes",
        "failed_fetches",
        "fetched_bytes",
        "fetches",
        "first_waiting",
        "last_error",
        "last_error_ms",
        "metadata_count",
        "remote_bytes",
    )

    def __init__(self) -> None:
        self.copies = self.failed_copies = self.copied_bytes = 0
        self.fetches = self.failed_fetches = self.fetched_bytes = 0
        self.deletes = self.failed_deletes = 0
        self.aux_state_builds = self.failed_aux_state_builds = 0
        self.copy_lag_bytes = self.copy_lag_segments = 0
        self.delete_lag_bytes = self.delete_lag_segments = 0
        self.remote_bytes = self.metadata_count = 0
        self.first_waiting: tuple[int, float] | None = None
        """The base offset of the next segment to copy, and since when it has been the next."""
        self.last_error = ""
        """The error of the last round; empty if it succeeded."""
        self.last_error_ms = -1

    @property
    def put_off(self) -> int:
        """1 if the last round failed, else 0."""
        return 1 if self.last_error else 0

    def copy_wait(self, now: float) -> float:
        """The seconds for which the next segment to copy has been waiting; 0 if no segment waits."""
        return 0.0 if self.first_waiting is None else now - self.first_waiting[1]

    def measure(self, waiting: Sequence[LogSegment], expiry: Expiry, cache: RemoteLogMetadataCache, now: float) -> None:
        """Set the gauges at the end of a leader's round, when no copy is in progress.

        `waiting` are the closed segments that are still to be copied. `now` is a time of the monotonic clock.
        """
        self.copy_lag_bytes, self.copy_lag_segments = sum(each.size for each in waiting), len(waiting)
        if not waiting:
            self.first_waiting = None
        elif self.first_waiting is None or self.first_waiting[0] != waiting[0].base_offset:
            self.first_waiting = waiting[0].base_offset, now
        self.delete_lag_bytes = sum(segment.size for segment, _ in expiry.segments)
        self.delete_lag_segments = len(expiry.segments)
        self.metadata_count, self.remote_bytes = cache.segment_count, cache.finished_bytes

    def measure_emptied(self, cache: RemoteLogMetadataCache) -> None:
        """Set the gauges while tiering is off: nothing is to be copied, and all remote segments are to be deleted."""
        self.copy_lag_bytes = self.copy_lag_segments = 0
        self.first_waiting = None
        self.metadata_count, self.remote_bytes = cache.segment_count, cache.finished_bytes
        self.delete_lag_segments = cache.segment_count
        self.delete_lag_bytes = sum(segment.size for segment in cache.segments())

    def failed(self, reason: str, now_ms: int) -> None:
        """Record a failed round. An exception without text gets a standard reason."""
        self.last_error, self.last_error_ms = reason[:ERROR_CHARS_MAX] or NO_REASON, now_ms

    def succeeded(self) -> None:
        """Record a completed round."""
        self.last_error, self.last_error_ms = "", -1


def tier_of(partition: Partition) -> PartitionTier:
    """The tier state of a partition of a tiered topic, created at the first use."""
    if partition.tier is None:
        partition.tier = PartitionTier()
    return partition.tier
