"""The rounds of a partition's leader for the remote tier: delete expired segments there, and copy closed and stable
ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from kraft.common.ids import Uuid
from kraft.remote.copy_decisions import epochs_of_segment, segments_to_copy
from kraft.remote.local_files import contents_of, facts_to_copy
from kraft.remote.log_facts import LocalSegment, LogFacts
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.remote_retention import Expiry, RemoteRetention, expiry_of
from kraft.remote.segment_copies import Contents, RemotePartition
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from kraft.storage.log_files import TRANSACTION_INDEX_SUFFIX
from kraft.storage.unified_log import UnifiedLog
from kraft.world.ports import World
from kraft.world.steps import Steps

COPIES_MAX: Final = 64
"""Limit of segments copied per round: other partitions wait for their turn."""


class RemoteLogTask:
    """The rounds for one partition in one term of its leader, run by one task. `remote` ends them when the term is
    over."""

    __slots__ = (
        "_advance_log_start",
        "_broker_id",
        "_cache",
        "_drive",
        "_leader_epoch",
        "_log",
        "_remote",
        "_topic_id_partition",
        "_world",
    )

    def __init__(
        self,
        world: World,
        log: UnifiedLog,
        remote: RemotePartition,
        cache: RemoteLogMetadataCache,
        topic_id_partition: TopicIdPartition,
        *,
        broker_id: int,
        leader_epoch: int,
        advance_log_start: Callable[[int], Awaitable[None]],
        drive: Callable[[Steps[Expiry]], Awaitable[Expiry]],
    ) -> None:
        """`advance_log_start` returns when the log start offset is raised durably on this broker. `drive` runs the
        steps of the retention decision and yields to other tasks."""
        self._world = world
        self._log = log
        self._remote = remote
        self._cache = cache
        self._topic_id_partition = topic_id_partition
        self._broker_id = broker_id
        self._leader_epoch = leader_epoch
        self._advance_log_start = advance_log_start
        self._drive = drive

    async def expire(self, retention: RemoteRetention) -> Sequence[tuple[RemoteLogSegmentMetadata, str]]:
        """Delete expired segments from the remote tier. Returns the deleted segments with the reason. Raises
        ObjectError, MetadataNotWritten; the next round continues."""
        expiry = await self._drive(
            expiry_of(
                facts_to_copy(self._log, self._cache),
                self._cache,
                retention,
                leader_epoch=self._leader_epoch,
                being_copied=self._remote.being_copied,
                now_ms=self._world.clock.wall_ms(),
            )
        )
        if expiry.log_start_offset > self._log.log_start_offset:
            await self._advance_log_start(expiry.log_start_offset)
        return [(segment, reason) for segment, reason in expiry.segments if await self._remote.delete(segment)]

    async def copy(self, count_max: int = COPIES_MAX) -> Sequence[RemoteLogSegmentMetadata]:
        """Copy the due segments, at most `count_max`. Raises CopyFailed, MetadataNotWritten, StorageError, OSError; the
        next round continues."""
        copied: list[RemoteLogSegmentMetadata] = []
        while len(copied) < count_max:
            facts = facts_to_copy(self._log, self._cache)
            due = segments_to_copy(facts, self._cache)
            if not due:
                break
            contents = contents_of(self._log, due[0])
            copied.append(await self._remote.copy(self._new_copy(facts, due[0], contents), contents))
        return copied

    def _new_copy(self, facts: LogFacts, due: LocalSegment, contents: Contents) -> RemoteLogSegmentMetadata:
        return RemoteLogSegmentMetadata(
            segment_id=Uuid(self._world.random.uuid("remote segment")),
            topic_id_partition=self._topic_id_partition,
            start_offset=due.base_offset,
            last_offset=due.end_offset - 1,
            broker_id=self._broker_id,
            max_timestamp_ms=due.timestamp_ms,
            event_timestamp_ms=self._world.clock.wall_ms(),
            size=due.size,
            leader_epochs=epochs_of_segment(facts, due),
            txn_index_is_empty=TRANSACTION_INDEX_SUFFIX not in contents,
        )
