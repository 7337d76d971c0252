"""Offset look-ups by time that must read inside a batch. Few run at the same time, and they yield to other tasks."""

from __future__ import annotations

import trio

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.compression import NONE, DecompressedTooLarge
from kraft.protocol.records.record_batch import LOG_APPEND_TIME, RecordBatch
from kraft.protocol.records.skipping import places_of
from kraft.storage.record_validator import DECODED_BYTES_MAX, TIMESTAMP_MAX
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import Threads
from kraft.world.steps import Steps, in_thread
from kraft.world.turns import in_turns

LOOK_UPS_AT_ONCE_MAX = 2
"""Limit of concurrent look-ups. Each may hold DECODED_BYTES_MAX in memory."""
RECORDS_A_SLICE = 5000
"""Records that are checked between two yields: about two milliseconds."""

Found = tuple[int, int, int]
"""Timestamp, offset and leader epoch of a record."""


class TimeLookups:
    """The look-ups of one broker. Owned by the broker's loop."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._free = trio.Semaphore(LOOK_UPS_AT_ONCE_MAX)

    async def find(self, log: UnifiedLog, timestamp: int) -> Found | None:
        """Return the first record of `log` whose timestamp is not below `timestamp`, or None.

        Raises ApiError MESSAGE_TOO_LARGE for a batch that decompresses to more than DECODED_BYTES_MAX, InvalidRecord,
        CompressionError, CorruptData.
        """
        async with self._free:
            return await in_turns(find_by_timestamp(log, timestamp), run_job=self._threads.run)

    async def find_in_batch(self, batch: RecordBatch, timestamp: int, start_offset: int) -> Found | None:
        """Find the first record of one batch, from `start_offset` on, that is at or after `timestamp`."""
        async with self._free:
            return await in_turns(_find_in_batch(batch, timestamp, start_offset), run_job=self._threads.run)

    async def find_latest(self, log: UnifiedLog) -> Found | None:
        """Return the first record with the largest timestamp of the log; None if no record has a timestamp. Raises like
        `find`."""
        latest = log.local.max_timestamp()
        return None if latest < 0 else await self.find(log, latest)


def find_by_timestamp(log: UnifiedLog, timestamp: int) -> Steps[Found | None]:
    """Find the offset like `TimeLookups.find`, in steps. The log may change between steps, so each step looks up the
    next batch again."""
    start = log.log_start_offset
    while (batch := log.local.find_batch_by_timestamp(timestamp, start)) is not None:
        found = yield from _find_in_batch(batch, timestamp, start)
        if found is not None:
            return found
        start = batch.next_offset
    return None


def _find_in_batch(batch: RecordBatch, timestamp: int, start_offset: int) -> Steps[Found | None]:
    if batch.codec == NONE:
        payload = bytes(batch.payload())
    else:
        try:
            payload = bytes((yield from in_thread(batch.payload, DECODED_BYTES_MAX)))
        except DecompressedTooLarge as problem:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch at offset {batch.base_offset}: {problem}") from None
    appended_at = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    for index, _, timestamp_delta, offset_delta in places_of(payload, batch.count):
        offset = batch.base_offset + offset_delta
        found = batch.base_timestamp + timestamp_delta if appended_at is None else appended_at
        if timestamp <= found <= TIMESTAMP_MAX and offset >= start_offset:
            return found, offset, batch.partition_leader_epoch
        if index % RECORDS_A_SLICE == RECORDS_A_SLICE - 1:
            yield None
    return None
