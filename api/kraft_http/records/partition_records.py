"""Appends and reads records of one partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kraft.admin.errors import Refused, check
from kraft.common.errors import ProtocolError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import AbortedTransaction, FetchResponse, PartitionData
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.compression import DecompressedTooLarge
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.protocol.schema import Bytes
from kraft.rpc_client.fetched import visible_batches
from kraft_http.node_transport import NodeTransport
from kraft_http.requests.outcomes import Outcome, TransactionalBatch, Transactions

TIMEOUT_MS = 30_000
ALL_IN_SYNC = -1
DECODED_BYTES_MAX: Final = 64 << 20
"""Limit of the decompressed records of one read, to limit memory. A batch beyond it cannot be read here."""


class Appended(NamedTuple):
    base_offset: int
    log_append_time_ms: int
    """-1 if the topic has the producers' timestamps."""


class FetchedRecord(NamedTuple):
    record: Record
    outcome: Outcome | None
    """Outcome of its transaction; None without one."""


class Fetched(NamedTuple):
    records: list[FetchedRecord]
    next_offset: int
    """Next offset: after the last record, or after a skipped compacted or control batch."""
    size: int
    """Bytes of the records' keys, values and headers."""


async def produce(kafka: NodeTransport, topic: str, partition: int, leader: int, records: Sequence[Record]) -> Appended:
    """Append one batch with acks=all. Raises Refused; after REQUEST_TIMED_OUT the records may or may not be in the
    log."""
    data = PartitionProduceData(index=partition, records=memoryview(build_batch(records)))
    request = ProduceRequest(
        acks=ALL_IN_SYNC, timeout_ms=TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    response = await kafka.ask(request, ProduceResponse, node_id=leader)
    answer = response.responses[0].partition_responses[0]
    check(answer.error_code, "", answer.error_message)
    return Appended(answer.base_offset, answer.log_append_time_ms)


async def fetch(
    kafka: NodeTransport,
    topic: str,
    partition: int,
    leader: int,
    offset: int,
    *,
    count: int,
    max_bytes: int,
    max_wait_ms: int,
    committed: bool,
) -> Fetched:
    """Fetch at most `count` records from `offset` on, but at least one if there is any. Raises Refused, also if the
    first batch is damaged or too large."""
    where = Place(kafka, topic, partition, leader)
    answer = await where.read(offset, max_bytes, max_wait_ms, committed=committed)
    data = answer.records or b""
    reading = _Reading(offset, count)
    try:
        reading.take(data, answer.aborted_transactions if committed else None)
    except ProtocolError as problem:
        if reading.next_offset == offset:  # Else what comes before it is the answer, and the next read meets it first.
            code = (
                ErrorCode.MESSAGE_TOO_LARGE if isinstance(problem, DecompressedTooLarge) else ErrorCode.CORRUPT_MESSAGE
            )
            raise Refused(code, f"{topic}-{partition} at offset {offset}", str(problem)) from problem
    transactions = Transactions()
    if committed:
        transactions.settled_end = reading.next_offset
    elif any(reading.origins):
        await _learn(transactions, where, data, offset, max_bytes, reading.origins)
    found = [
        FetchedRecord(record, None if batch is None else transactions.outcome(batch))
        for record, batch in zip(reading.found, reading.origins, strict=True)
    ]
    return Fetched(found, reading.next_offset, DECODED_BYTES_MAX - reading.room)


class Place(NamedTuple):
    """A partition and its leader."""

    kafka: NodeTransport
    topic: str
    partition: int
    leader: int

    async def read(self, offset: int, max_bytes: int, max_wait_ms: int, *, committed: bool) -> PartitionData:
        """Fetch the partition's data from its leader. Raises Refused."""
        asked = FetchPartition(partition=self.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(committed),
            session_epoch=-1,
            topics=[FetchTopic(topic=self.topic, partitions=[asked])],
        )
        response = await self.kafka.ask(request, FetchResponse, node_id=self.leader)
        check(response.error_code, "")
        answer = response.responses[0].partitions[0]
        check(answer.error_code, f"{self.topic}-{self.partition} at offset {offset}")
        return answer

    async def open_transactions(self) -> dict[int, int]:
        """The first offset of each producer's open transaction. Raises Refused."""
        asked = TopicRequest(name=self.topic, partition_indexes=[self.partition])
        request = DescribeProducersRequest(topics=[asked])
        response = await self.kafka.ask(request, DescribeProducersResponse, node_id=self.leader)
        answer = response.topics[0].partitions[0]
        check(answer.error_code, f"{self.topic}-{self.partition}", answer.error_message)
        return {
            producer.producer_id: producer.current_txn_start_offset
            for producer in answer.active_producers
            if producer.current_txn_start_offset >= 0
        }


class Chunk:
    """The response to one read. Its records are decoded as they are iterated."""

    def __init__(self, where: Place, offset: int, max_bytes: int, answer: PartitionData, *, committed: bool) -> None:
        self._where = where
        self._offset = offset
        self._max_bytes = max_bytes
        self._data = answer.records or b""
        self._aborted = answer.aborted_transactions or () if committed else None
        self.next_offset = offset
        """Next offset after the accepted records."""
        self.size = len(self._data)
        self._transactions: Transactions | None = None

    @classmethod
    async def read(cls, where: Place, offset: int, max_bytes: int, *, committed: bool) -> Chunk:
        """Read a chunk. Raises Refused."""
        return cls(
            where, offset, max_bytes, await where.read(offset, max_bytes, 0, committed=committed), committed=committed
        )

    def records(self) -> Iterator[tuple[Record, TransactionalBatch | None]]:
        """The records that a consumer may see; those of a transaction with their batch. Batches are decompressed one at
        a time. Raises ProtocolError at a batch that is damaged or too large."""
        for batch, is_visible in visible_batches(self._data, self._aborted):
            if is_visible:
                origin = TransactionalBatch(batch.base_offset, batch.producer_id) if batch.is_transactional else None
                for record in batch.iterate_records(DECODED_BYTES_MAX, self._offset):
                    if record.offset >= self._offset:
                        self.next_offset = record.offset + 1
                        yield record, origin
            self.next_offset = max(self.next_offset, batch.next_offset)

    async def outcome(self, origin: TransactionalBatch | None) -> Outcome | None:
        """The outcome of a record's transaction; None without one. Raises Refused."""
        if origin is None:
            return None
        if self._aborted is not None:
            return Outcome.COMMITTED
        if self._transactions is None:
            self._transactions = Transactions()
            await _learn(
                self._transactions, self._where, self._data, self._offset, self._max_bytes, list(self._origins())
            )
        return self._transactions.outcome(origin)

    def _origins(self) -> Iterator[TransactionalBatch]:
        """The transactional batches, up to a damaged one."""
        try:
            for batch in batches(self._data, partial_tail=True):
                if batch.is_transactional and not batch.is_control:
                    yield TransactionalBatch(batch.base_offset, batch.producer_id)
        except ProtocolError:
            return


async def _learn(
    transactions: Transactions,
    where: Place,
    data: Bytes,
    offset: int,
    max_bytes: int,
    read: Sequence[TransactionalBatch | None],
) -> None:
    """Learn the outcomes of the transactions of the batches in `read`: first from the data itself, then by further
    requests. Raises Refused."""
    transactions.learn_markers(data)
    if transactions.is_told(read):
        return
    transactions.open_from = await where.open_transactions()
    if transactions.is_told(read):
        return
    answer = await where.read(offset, max_bytes, 0, committed=True)
    transactions.learn_settled(answer.records or b"", answer.aborted_transactions or ())


class _Reading:
    """The records of one response that a consumer may see, up to the limits of count and size."""

    def __init__(self, offset: int, count: int) -> None:
        self._offset = offset
        self._count = count
        self.found: list[Record] = []
        self.origins: list[TransactionalBatch | None] = []
        """The batch of each record of a transaction."""
        self.next_offset = offset
        self.room = DECODED_BYTES_MAX

    def take(self, data: Bytes, aborted: Sequence[AbortedTransaction] | None) -> None:
        """Take records batch by batch. Raises ProtocolError at a batch that is damaged or decompresses to more than
        there is room for. `aborted` is as in `visible_batches`."""
        for batch, is_visible in visible_batches(data, aborted):
            if is_visible and not self._take_batch(batch):
                return
            self.next_offset = max(self.next_offset, batch.next_offset)
            if self.room <= 0:
                return

    def _take_batch(self, batch: RecordBatch) -> bool:
        """Take the batch's records. Returns whether there is room for more."""
        origin = TransactionalBatch(batch.base_offset, batch.producer_id) if batch.is_transactional else None
        for record in batch.iterate_records(self.room, self._offset):
            if record.offset >= self._offset:
                self.found.append(record)
                self.origins.append(origin)
                self.next_offset = record.offset + 1
                self.room -= size_of(record)
                if len(self.found) == self._count:
                    return False
        return True


def size_of(record: Record) -> int:
    return (
        len(record.key or b"")
        + len(record.value or b"")
        + sum(len(name) + len(value or b"") for name, value in record.headers)
    )
