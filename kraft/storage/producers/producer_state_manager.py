"""The producers of one partition: idempotence and transactions as the log sees them (KIP-98, KIP-360, KIP-890).

An append takes two steps. `check` decides from the header alone whether the batch is a duplicate, refused or accepted.
`apply` changes the state once the bytes are written. A transaction is ongoing from its first batch to its marker, and
unreplicated until the marker is below the high watermark. The lowest first offset of both kinds bounds what
read_committed returns.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

from kraft.common.errors import ApiError, CorruptData
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker
from kraft.protocol.records.record_batch import (
    NO_PRODUCER_EPOCH,
    PRODUCER_EPOCH_MAX,
    SEQUENCE_MAX,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from kraft.storage.checkpoints import read_file, replace_file
from kraft.storage.log_files import PRODUCER_SNAPSHOT_SUFFIX, offset_file_name
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot
from kraft.storage.producers.producer_state_entry import BatchMetadata, ProducerStateEntry
from kraft.storage.producers.verification import NOT_REQUIRED, Verification
from kraft.world.ports import FileSystem

PRODUCER_ID_EXPIRATION_MS = 86_400_000


class CompletedTransaction:
    """A transaction with data on this partition that was ended by the marker at `last_offset`."""

    __slots__ = ("aborted", "first_offset", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int, last_offset: int, aborted: bool) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.aborted = aborted


class ProducerStateManager:
    """Producer state as of `map_end_offset`. `snapshots` are the offsets with a snapshot file, ascending."""

    __slots__ = (
        "_directory",
        "_files",
        "expiration_ms",
        "map_end_offset",
        "ongoing",
        "producers",
        "snapshots",
        "unreplicated",
        "verifications",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        *,
        snapshots: list[int] | None = None,
        expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> None:
        self._files = files
        self._directory = directory
        self.expiration_ms = expiration_ms
        self.snapshots = [] if snapshots is None else snapshots
        self.map_end_offset = 0
        self.producers: dict[int, ProducerStateEntry] = {}
        self.ongoing: dict[int, int] = {}
        """First offset of each open transaction -> producer id, ascending: transactions open in the order of the
        log."""
        self.unreplicated: dict[int, int] = {}
        """First offset of each ended transaction whose marker is not below the high watermark yet -> offset of the
        marker."""
        self.verifications: dict[int, Verification] = {}
        """Producers whose first batch of a transaction waits for verification by the coordinator. In memory only."""

    # Appends

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, *, implicit: bool
    ) -> Verification | None:
        """Return the verification with which to append a transactional batch once the coordinator has confirmed the
        transaction. None if the producer's transaction is already open on this partition. See `Verification`."""
        if self._is_ongoing(producer_id, producer_epoch):
            return None
        verification = self.verifications.get(producer_id)
        if verification is None:
            verification = Verification(producer_epoch, sequence, now_ms, implicit)
            self.verifications[producer_id] = verification
        else:
            verification.join(producer_epoch, sequence)
        return verification

    def _is_ongoing(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and entry.current_transaction_first_offset is not None
            and entry.producer_epoch == producer_epoch
        )

    def check(
        self, batch: RecordBatch, first_offset: int, origin: int, verification: Verification | None = None
    ) -> BatchMetadata | None:
        """Check a batch before it is appended. Returns the earlier append if the batch is a duplicate. `verification`
        is the one obtained for a transactional batch.

        Raises ApiError if the batch does not fit the producer's state. Control batches are checked by `check_marker`.
        """
        entry = self.producers.get(batch.producer_id)
        if entry is not None and origin == AppendOrigin.CLIENT:
            duplicate = entry.find_duplicate(batch)
            if duplicate is not None:
                return duplicate
        if batch.attributes & TRANSACTIONAL_FLAG and origin != AppendOrigin.REPLICATION:
            self._check_verified(batch, entry, origin, verification)
        if origin == AppendOrigin.REPLICATION:
            return None
        epoch = NO_PRODUCER_EPOCH if entry is None else entry.producer_epoch
        if batch.producer_epoch < epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {batch.producer_id}: epoch {batch.producer_epoch} is older than {epoch}: a newer instance "
                "has taken over",
            )
        if entry is None:
            return None  # An unknown producer may start anywhere: its state may have been deleted with its records.
        if origin == AppendOrigin.CLIENT:
            _check_sequence(entry, batch, first_offset)
        if entry.current_transaction_first_offset is not None and not batch.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {batch.producer_id} has had a transaction open since offset "
                f"{entry.current_transaction_first_offset}, but sent a batch that is not transactional",
            )
        return None

    def _check_verified(
        self, batch: RecordBatch, entry: ProducerStateEntry | None, origin: int, verification: Verification | None
    ) -> None:
        """Raises ApiError INVALID_TXN_STATE if the batch would open a transaction that the coordinator has not
        confirmed or has ended since."""
        if self._is_ongoing(batch.producer_id, batch.producer_epoch) or verification is NOT_REQUIRED:
            return
        waiting = self.verifications.get(batch.producer_id)
        if waiting is None or waiting is not verification:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {batch.producer_id}: the records are not part of a transaction that is open now",
            )
        if origin != AppendOrigin.CLIENT:
            return
        if waiting.implicit and batch.base_sequence != 0 and (entry is None or not entry.batches):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} is not known here and must start with sequence 0, "
                f"not {batch.base_sequence}",
            )
        if batch.base_sequence > waiting.lowest_sequence:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {batch.base_sequence} of producer {batch.producer_id} would overtake "
                f"{waiting.lowest_sequence}, which came before it",
            )

    def check_marker(
        self, batch: RecordBatch, marker: TransactionMarker, origin: int, transaction_version: int = 0
    ) -> bool:
        """Whether the marker is already written because its coordinator retried it; then nothing is appended.

        Raises ApiError if the marker is outdated. From transaction version 2 on its epoch must exceed the producer's
        (KIP-890), unless the marker is a retry or there is no greater epoch.
        """
        entry = self.producers.get(batch.producer_id)
        if entry is None or origin == AppendOrigin.REPLICATION:
            return False
        is_ended = batch.producer_epoch == entry.producer_epoch and entry.current_transaction_first_offset is None
        may_be_equal = transaction_version < 2 or is_ended or batch.producer_epoch == PRODUCER_EPOCH_MAX
        if batch.producer_epoch < entry.producer_epoch + (not may_be_equal):
            problem = (
                f"producer {batch.producer_id}: marker of epoch {batch.producer_epoch}, the last seen is "
                f"{entry.producer_epoch}"
            )
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, problem)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of producer {batch.producer_id}: its coordinator epoch {marker.coordinator_epoch} is older "
                f"than {entry.coordinator_epoch}",
            )
        # Below version 2 the producer's next transaction has the same epoch. Only the coordinator's epoch in the log
        # keeps a late marker of the former coordinator from ending that one, so a new coordinator's marker is written.
        return is_ended and (transaction_version >= 2 or marker.coordinator_epoch == entry.coordinator_epoch)

    def end_verification(self, batch: RecordBatch, transaction_version: int) -> None:
        """Drop a pending verification after a valid marker: its batch would reopen the ended transaction. From
        transaction version 2 on, a verification with the marker's epoch belongs to the next transaction and is kept."""
        verification = self.verifications.get(batch.producer_id)
        if verification is not None and (
            transaction_version < 2 or verification.producer_epoch != batch.producer_epoch
        ):
            del self.verifications[batch.producer_id]

    def apply(self, batch: RecordBatch, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Update the state after a data batch of a producer was appended."""
        entry = self._entry(batch.producer_id)
        entry.add_batch(
            batch.producer_epoch,
            BatchMetadata(batch.last_sequence, last_offset, last_offset - first_offset, max_timestamp),
        )
        if batch.is_transactional:
            self.verifications.pop(batch.producer_id, None)
            if entry.current_transaction_first_offset is None:
                entry.current_transaction_first_offset = first_offset
                self.ongoing[first_offset] = batch.producer_id

    def apply_marker(
        self, batch: RecordBatch, marker: TransactionMarker, offset: int, timestamp: int
    ) -> CompletedTransaction | None:
        """Update the state after a marker was appended at `offset`. Returns the transaction it ended, if that had data
        on this partition."""
        entry = self._entry(batch.producer_id)
        entry.adopt_epoch(batch.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset = entry.current_transaction_first_offset
        entry.current_transaction_first_offset = None
        if first_offset is None:
            return None
        self.ongoing.pop(first_offset, None)
        self.unreplicated[first_offset] = offset
        return CompletedTransaction(
            batch.producer_id, first_offset, offset, marker.control_type == ControlRecordType.ABORT
        )

    def _entry(self, producer_id: int) -> ProducerStateEntry:
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerStateEntry(producer_id)
        return entry

    # Transactions

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction that is open, or ended by a marker not yet below the high
        watermark."""
        return min((*self.unreplicated, *self.ongoing), default=None) if self.unreplicated or self.ongoing else None

    @property
    def oldest_transaction_ms(self) -> int | None:
        """Time of the last append of the producer that has been silent for longest in an open transaction, in ms since
        1970. None if no transaction is open."""
        ids = self.ongoing.values()
        return min((self.producers[producer_id].last_timestamp for producer_id in ids), default=None)  # unordered

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The LSO once `completed` is replicated: the start of the next open transaction of another producer, or one
        past the marker."""
        return min(
            (first for first, producer_id in self.ongoing.items() if producer_id != completed.producer_id),
            default=completed.last_offset + 1,
        )

    def high_watermark_updated(self, high_watermark: int) -> None:
        """Drop ended transactions whose markers are below the new high watermark: they are stable."""
        if self.unreplicated:
            self.unreplicated = {first: last for first, last in self.unreplicated.items() if last >= high_watermark}

    # Time and space

    def expire(self, now_ms: int) -> None:
        """Forget producers that wrote nothing for producer.id.expiration.ms and have no transaction open."""
        for producer_id in [
            producer_id for producer_id, entry in self.producers.items() if self._is_expired(entry, now_ms)
        ]:
            del self.producers[producer_id]
        for producer_id in [
            producer_id
            for producer_id, verification in self.verifications.items()
            if now_ms - verification.started_ms >= self.expiration_ms
        ]:
            del self.verifications[producer_id]

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        return entry.current_transaction_first_offset is None and now_ms - entry.last_timestamp >= self.expiration_ms

    def log_start_incremented(self, log_start_offset: int) -> None:
        self.unreplicated = {first: last for first, last in self.unreplicated.items() if last >= log_start_offset}
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    # Snapshots

    def take_over(self, other: ProducerStateManager) -> None:
        """Adopt the state of `other`, which covers the same records, and perhaps earlier ones. `other` must not be used
        afterwards."""
        self.producers, self.verifications = other.producers, other.verifications
        self.ongoing, self.unreplicated = other.ongoing, other.unreplicated

    def directory_renamed(self, directory: str) -> None:
        """Update the path after the log's directory was renamed."""
        self._directory = directory

    def path_of(self, offset: int) -> str:
        return f"{self._directory}/{offset_file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)}"

    def take_snapshot(self, *, durable: bool = False, even_if_empty: bool = True) -> None:
        """Write a snapshot as of `map_end_offset`, unless one exists for it."""
        offset = self.map_end_offset
        if (self.snapshots and self.snapshots[-1] >= offset) or not (even_if_empty or self.producers or self.snapshots):
            return
        replace_file(self._files, self.path_of(offset), encode_snapshot(self.producers.values()), durable=durable)
        insort(self.snapshots, offset)

    def reload(self, log_start_offset: int, end_offset: int, now_ms: int, on_corrupt: Callable[[str], None]) -> None:
        """Reset to the newest readable snapshot at or before `end_offset`. The caller then replays the log from
        `map_end_offset`.

        Snapshots outside the log are removed.
        """
        for offset in [offset for offset in self.snapshots if offset > end_offset or offset < log_start_offset]:
            self.remove_snapshot(offset)
        self.producers, self.ongoing, self.unreplicated, self.verifications = {}, {}, {}, {}
        while self.snapshots:
            path = self.path_of(self.snapshots[-1])
            try:
                entries = decode_snapshot(path, read_file(self._files, path) or b"")
            except CorruptData as problem:
                on_corrupt(str(problem))
                self.remove_snapshot(self.snapshots[-1])
                continue
            self._load(entries, now_ms)
            self.map_end_offset = self.snapshots[-1]
            return
        self.map_end_offset = log_start_offset

    def _load(self, entries: list[ProducerStateEntry], now_ms: int) -> None:
        transactions = []
        for entry in entries:
            first_offset = entry.current_transaction_first_offset
            if self._is_expired(entry, now_ms):
                continue
            self.producers[entry.producer_id] = entry
            if first_offset is not None:
                transactions.append((first_offset, entry.producer_id))
        self.ongoing = dict(sorted(transactions))

    def reset(self, offset: int) -> None:
        """Drop all state and snapshots; the log restarts at `offset`."""
        for snapshot in list(self.snapshots):
            self.remove_snapshot(snapshot)
        self.producers, self.ongoing, self.unreplicated, self.verifications = {}, {}, {}, {}
        self.map_end_offset = offset

    def restart_from(self, offset: int, snapshot: bytes, now_ms: int) -> None:
        """Drop all state and load `snapshot`, which is as of `offset`, where the log continues. Raises OSError,
        CorruptData."""
        entries = decode_snapshot(self.path_of(offset), snapshot)
        self.reset(offset)
        replace_file(self._files, self.path_of(offset), snapshot, durable=True)
        self.snapshots = [offset]
        self._load(entries, now_ms)

    def keep_snapshots(self, base_offsets: set[int]) -> None:
        """Remove snapshots except the newest and those at segment starts, which a truncation may need."""
        for offset in self.snapshots[:-1]:
            if offset not in base_offsets:
                self.remove_snapshot(offset)

    def remove_snapshots_before(self, offset: int) -> None:
        for snapshot in [each for each in self.snapshots if each < offset]:
            self.remove_snapshot(snapshot)

    def remove_snapshot(self, offset: int) -> None:
        """Remove the snapshot at `offset`, if there is one."""
        at = bisect_left(self.snapshots, offset)
        if at < len(self.snapshots) and self.snapshots[at] == offset:
            del self.snapshots[at]
            if self._files.exists(self.path_of(offset)):
                self._files.remove(self.path_of(offset))


def _check_sequence(entry: ProducerStateEntry, batch: RecordBatch, first_offset: int) -> None:
    sequence = batch.base_sequence
    if batch.producer_epoch != entry.producer_epoch:
        if sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                (
                    f"epoch {batch.producer_epoch} of producer {batch.producer_id} must start with sequence 0, "
                    f"not {sequence} (offset {first_offset})"
                ),
            )
        return
    last = entry.last_sequence
    if sequence != last + 1 and not (sequence == 0 and last == SEQUENCE_MAX):
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"sequence {sequence} of producer {batch.producer_id} at offset {first_offset}, the last was {last}",
        )
