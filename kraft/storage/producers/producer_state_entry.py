"""The state of one producer on one partition (KIP-98): its epoch, its last five batches, and the start of its open
transaction."""

from __future__ import annotations

from kraft.protocol.records.record_batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, SEQUENCE_MAX, RecordBatch

CACHED_BATCHES = 5
NO_COORDINATOR_EPOCH = -1


class BatchMetadata:
    """An appended batch, by its last sequence and offset."""

    __slots__ = ("last_offset", "last_sequence", "offset_delta", "timestamp")

    def __init__(self, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> None:
        self.last_sequence = last_sequence
        self.last_offset = last_offset
        self.offset_delta = offset_delta
        self.timestamp = timestamp

    @property
    def first_sequence(self) -> int:
        """The first sequence of the batch. Sequences wrap to 0 after 2^31 - 1."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerStateEntry:
    """The state of one producer id. Invariant: `batches` are of `producer_epoch`, oldest first, at most five."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_transaction_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        *,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = -1,
        current_transaction_first_offset: int | None = None,
        batches: tuple[BatchMetadata, ...] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_transaction_first_offset = current_transaction_first_offset
        self.batches = batches

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, batch: RecordBatch) -> BatchMetadata | None:
        """The cached batch with the same epoch and the same first and last sequence, if there is one."""
        if batch.producer_epoch == self.producer_epoch:
            first, last = batch.base_sequence, batch.last_sequence
            for known in self.batches:
                if known.last_sequence == last and known.first_sequence == first:
                    return known
        return None

    def add_batch(self, epoch: int, batch: BatchMetadata) -> None:
        self.adopt_epoch(epoch)
        self.batches = (*self.batches[-(CACHED_BATCHES - 1) :], batch)
        self.last_timestamp = batch.timestamp

    def adopt_epoch(self, epoch: int) -> None:
        """Set the epoch. Batches of another epoch are dropped."""
        if epoch != self.producer_epoch:
            self.batches = ()
            self.producer_epoch = epoch
