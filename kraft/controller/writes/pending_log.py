"""The active controller's state ahead of the commit: appended batches, the pending image, and the waiting writes.

Records are replayed onto the pending image before they are appended. Images are immutable values, so a failed append
needs no undo. When the batch commits, the node's loader reuses the same image, so that no record is replayed twice.
Losing leadership drops the pending images and fails the waiting writes: their records may or may not commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import trio

from kraft.common.errors import ApiError, NotLeader
from kraft.controller.controller_result import MAX_RECORDS_PER_BATCH, ControllerResult
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.loader import RECORDS_PER_STEP, TRANSACTION_MARKERS
from kraft.metadata.records.access_control_entry_record import AccessControlEntryRecord
from kraft.metadata.records.delegation_token_record import DelegationTokenRecord
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.metadata.records.user_scram_credential_record import UserScramCredentialRecord
from kraft.protocol.error_codes import ErrorCode

GROWING: Final = frozenset(
    record.API_KEY
    for record in (
        TopicRecord,
        PartitionRecord,
        AccessControlEntryRecord,
        UserScramCredentialRecord,
        DelegationTokenRecord,
        NoOpRecord,
    )
)
"""Records that a nearly full disk refuses: they only add to the metadata, or have no content. All others shrink it or
keep the cluster working: configurations and quotas, deletions, in-sync sets, elections, registrations and fencing."""


class MetadataLog(Protocol):
    """The Raft driver, as used by the controller."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record to be appended."""

    def encode(self, records: Sequence[Any], level: int | None) -> list[bytes]:
        """Return the records as encoded in the log at this level of metadata.version, for `append`."""

    def append(self, epoch: int, records: Sequence[Any], *, encoded: Sequence[bytes] | None = None) -> int:
        """Append the records as one batch, as leader of `epoch`. Returns the offset of the last record. Raises
        NotLeader."""

    def require_room(self, *, grows: bool) -> None:
        """Raises ApiError(KAFKA_STORAGE_ERROR) if the disk is too full. `grows`: the records make the metadata larger,
        and need more free space than others."""


class _Pending(NamedTuple):
    """One appended batch: the image before it, the image after it, and whether the loader may reuse that."""

    last_offset: int
    base: MetadataImage
    image: MetadataImage
    changes: MetadataChanges
    shareable: bool


class _Waiter:
    __slots__ = ("done", "failed", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.done = trio.Event()
        self.failed = False


class PendingLog:
    """Appended but uncommitted batches. Owned by the controller. `epoch` is the claimed epoch, None while another node
    is active."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log
        self._pending: deque[_Pending] = deque()
        self._waiters: deque[_Waiter] = deque()
        self._committed_offset = -1
        self._last_appended = -1
        self.epoch: int | None = None
        self.image = MetadataImage()
        self.leader_id = -1

    def claim(self, epoch: int, image: MetadataImage) -> None:
        """Start writing on top of `image`, which contains the whole log."""
        assert self.epoch is None, "an epoch is claimed once"
        self.epoch = epoch
        self.image = image
        self._last_appended = self._log.log_end_offset - 1

    def renounce(self) -> None:
        """Drop all uncommitted batches and fail the waiting writes: another node leads."""
        self.epoch = None
        self._pending.clear()
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            waiter.failed = True
            waiter.done.set()

    def require_active(self) -> int:
        """Return the claimed epoch. Raises ApiError(NOT_CONTROLLER), which names the active controller if it is
        known."""
        if self.epoch is None:
            raise self.not_controller()
        return self.epoch

    def not_controller(self) -> ApiError:
        where = (
            f"The active controller appears to be node {self.leader_id}."
            if self.leader_id >= 0
            else "No controller appears to be active."
        )
        return ApiError(ErrorCode.NOT_CONTROLLER, where)

    @property
    def next_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_appended(self) -> int:
        return self._last_appended

    async def append(self, result: ControllerResult[Any]) -> tuple[int, MetadataChanges]:
        """Replay and append the records of `result`. Returns the offset to wait for, and the changes.

        The caller holds the write lock, so that only one append runs at a time. Replaying and encoding yield every 500
        records. Raises ApiError(NOT_CONTROLLER, or KAFKA_STORAGE_ERROR without appending anything while the disk is
        full), ValueError for records that contradict the image.
        """
        epoch = self.require_active()
        records = result.records
        changes = MetadataChanges()
        if not records:
            return (self._pending[-1].last_offset if self._pending else -1), changes
        self._log.require_room(grows=any(record.API_KEY in GROWING for record in records))
        assert not result.atomic or len(records) <= MAX_RECORDS_PER_BATCH, "an atomic result fits into one batch"
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            changes.merge(await self._append_batch(epoch, records[start : start + MAX_RECORDS_PER_BATCH]))
        return self._last_appended, changes

    async def _append_batch(self, epoch: int, records: Sequence[Any]) -> MetadataChanges:
        base = image = self.image
        level = base.features.metadata_version
        changes = MetadataChanges()
        encoded: list[bytes] = []
        for start in range(0, len(records), RECORDS_PER_STEP):
            if start:
                await trio.lowlevel.checkpoint()
            image, more = image.replay_batch(records[start : start + RECORDS_PER_STEP])
            changes.merge(more)
            encoded += self._log.encode(records[start : start + RECORDS_PER_STEP], level)
        if self.epoch != epoch:
            raise self.not_controller()
        if (
            self.image is not base
        ):  # The loader caught up during a yield, and the image is now the loader's: equal content.
            assert self.image == base
            base = self.image
        try:
            last_offset = self._log.append(epoch, records, encoded=encoded)
        except NotLeader as lost:
            self.leader_id = lost.leader_id
            self.renounce()
            raise self.not_controller() from lost
        shareable = not any(record.API_KEY in TRANSACTION_MARKERS for record in records)
        self._pending.append(_Pending(last_offset, base, image, changes, shareable))
        self.image = image
        self._last_appended = last_offset
        return changes

    async def committed(self, offset: int) -> None:
        """Return once everything up to `offset` is committed. Raises ApiError(NOT_CONTROLLER) if leadership is lost
        first."""
        if offset <= self._committed_offset:
            return
        waiter = _Waiter(offset)
        self._waiters.append(waiter)
        await waiter.done.wait()
        if waiter.failed:
            raise self.not_controller()

    def prepared(
        self, base: MetadataImage, last_offset: int, epoch: int
    ) -> tuple[MetadataImage, MetadataChanges] | None:
        """Return the image after this controller's own batch that ends at `last_offset`, if the batch was built on top
        of exactly `base`; else None."""
        if epoch != self.epoch or not self._pending:
            return None
        first = self._pending[0]
        if first.last_offset != last_offset or first.base is not base or not first.shareable:
            return None
        return first.image, first.changes

    def handle_committed(self, offset: int, image: MetadataImage, transaction_is_open: bool) -> None:
        """Handle a commit up to `offset`, which leads to `image`."""
        self._committed_offset = max(self._committed_offset, offset)
        while self._pending and self._pending[0].last_offset <= offset:
            self._pending.popleft()
        if self.epoch is not None and not self._pending and not transaction_is_open:
            self.image = image
        while self._waiters and self._waiters[0].offset <= offset:
            self._waiters.popleft().done.set()
