"""Send record batches to their partition leaders with acks=all, under one producer id. A batch that is sent again after
a broken connection is appended only once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.record_batch import Buffer, increment_sequence
from kraft.spark.client.wire import RETRY_SECONDS, WireCluster, WireConnection, WireError
from kraft.spark.errors import batch_fenced
from kraft.spark.sink.staged_batch import count_of, halves, stamped

ACKS_ALL = -1
REQUEST_TIMEOUT_MS = 30_000
DELIVERY_SECONDS_MAX = 120.0
"""How long one request is retried."""
ROUND_BYTES = 4 << 20
"""Bytes of the tasks' rows that are read while the leaders append as many."""
TOO_LARGE = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))
FENCED = frozenset(
    (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
)
FORGOTTEN = frozenset(
    (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    )
)
"""Errors of a recreated topic or a truncated log: outside a transaction, a new producer id continues."""

Partition = tuple[str, int]


class Outgoing(NamedTuple):
    """A record batch to send to one partition."""

    topic: str
    partition: int
    data: Buffer

    @property
    def place(self) -> Partition:
        return self.topic, self.partition


class Posted(NamedTuple):
    """A Produce request in flight."""

    connection: WireConnection
    places: tuple[Partition, ...]
    number: int


class BatchSender:
    """Sends record batches under the producer id set by `become`. They are transactional unless `transactional_id` is
    None. A partition has at most one batch in flight. `version` is that of Produce requests, if not the usual one."""

    def __init__(self, cluster: WireCluster, transactional_id: str | None, version: int | None = None) -> None:
        self.cluster = cluster
        self.version = version
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[Partition, int] = {}
        self.is_forgotten = False
        self.queues: dict[Partition, deque[Buffer]] = {}  # What is not acknowledged yet.
        self.posted: list[Posted] = []  # Of it, the first batches, where they could be sent.
        self.bytes_max: dict[str, int] = {}  # Of a batch, where a topic has refused a larger one.

    def become(self, producer_id: int, epoch: int) -> None:
        """Set the producer id and epoch. Sequences start at 0 in every partition."""
        self.producer_id, self.epoch, self.sequences = producer_id, epoch, {}
        self.is_forgotten = False

    def write(self, outgoing: Iterable[Outgoing]) -> dict[Partition, int]:
        """Send all batches, in order within each partition. Returns the offset of each partition's last batch. Raises
        SourceError if another producer fenced this one, WireError, OSError."""
        last: dict[Partition, int] = {}
        for chunk in rounds(outgoing):
            last |= self.finish()
            self.start(chunk)
        return last | self.finish()

    def start(self, outgoing: Iterable[Outgoing]) -> None:
        """Send the first batch of each partition without waiting. Nothing else may be in flight. Raises as `write`."""
        assert not self.queues
        for each in outgoing:
            self.queues.setdefault(each.place, deque()).append(each.data)
        if self.queues:
            self.posted = self.post()

    def finish(self) -> dict[Partition, int]:
        """Wait until all started batches are acknowledged. Returns and raises as `write`."""
        queues, last, deadline = self.queues, dict[Partition, int](), time.monotonic() + DELIVERY_SECONDS_MAX
        while queues:
            answers = self.collect(self.posted)
            is_done = False
            for place, answer in answers.items():
                if self.settle(place, queues[place], answer):
                    is_done, last[place] = True, answer.base_offset
                    if not queues[place]:
                        del queues[place]
            if self.is_forgotten:
                self.become(*new_producer(self.cluster))
            if is_done:
                deadline = time.monotonic() + DELIVERY_SECONDS_MAX
            elif time.monotonic() > deadline:
                raise TimeoutError(
                    f"the partitions {sorted(queues)} accepted no batch within {DELIVERY_SECONDS_MAX:g} s"
                )
            if len(answers) < len(queues) or not is_done:
                time.sleep(RETRY_SECONDS)
            if queues:
                self.posted = self.post()
        return last

    def fitting(self, topic: str, queue: deque[Buffer]) -> Buffer:
        """Return the first batch of the queue, split if it exceeds the topic's known size limit."""
        while len(queue[0]) > self.bytes_max.get(topic, len(queue[0])) and count_of(queue[0]) > 1:
            queue.extendleft(reversed(halves(queue.popleft())))
        return queue[0]

    def settle(self, place: Partition, queue: deque[Buffer], answer: Any) -> bool:
        """Handle a leader's response: whether the first batch of the queue is now in the log. Raises SourceError or
        WireError for an error that cannot be retried."""
        code = answer.error_code
        if not code:
            self.sequences[place] = increment_sequence(self.sequences.get(place, 0), count_of(queue.popleft()))
            return True
        if self.transactional_id is not None and code in FENCED:
            raise batch_fenced(self.transactional_id)
        if self.transactional_id is None and code in FORGOTTEN:
            self.is_forgotten = True
            return False
        if code in TOO_LARGE:
            size = len(queue[0])
            if count_of(queue[0]) == 1:
                what = f"a row for {place[0]}-{place[1]} has {size} bytes"
                raise WireError(code, f"{what}, more than the topic accepts (max.message.bytes, segment.bytes)")
            self.bytes_max[place[0]] = min(self.bytes_max.get(place[0], size), size // 2)
            return False
        problem = WireError(code, f"{place[0]}-{place[1]} ({answer.error_message or 'no reason is given'})")
        if not problem.is_retriable:
            raise problem
        self.cluster.stale(place[0])
        return False

    def post(self) -> list[Posted]:
        """Send the first batch of each partition to its leader. Partitions without a leader are skipped."""
        by_leader: dict[WireConnection, dict[Partition, Buffer]] = {}
        for place, queue in self.queues.items():
            data = self.fitting(place[0], queue)
            try:
                by_leader.setdefault(self.cluster.leader(*place), {})[place] = data
            except (OSError, WireError) as problem:
                if isinstance(problem, WireError) and not problem.is_retriable:
                    raise
                self.cluster.stale(place[0])
        under_way = []
        for connection, group in by_leader.items():
            try:
                under_way.append(Posted(connection, tuple(group), connection.send(self.request(group), self.version)))
            except OSError:
                self.broken(connection, group)
        return under_way

    def collect(self, posted: Iterable[Posted]) -> dict[Partition, Any]:
        """Return the leaders' responses by partition. A partition without a leader, or whose connection broke, has
        none."""
        found: dict[Partition, Any] = {}
        for connection, places, number in posted:
            try:
                answer = connection.receive(number)
            except OSError:
                self.broken(connection, places)
                continue
            for topic in answer.responses:
                found.update({(topic.name, each.index): each for each in topic.partition_responses})
        return found

    def broken(self, connection: WireConnection, group: Iterable[Partition]) -> None:
        for topic in {topic for topic, _ in group}:
            self.cluster.stale(topic, connection)

    def request(self, group: dict[Partition, Buffer]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), data in group.items():
            sequence = self.sequences.get((topic, partition), 0)
            records = stamped(data, self.producer_id, self.epoch, sequence, self.transactional_id is not None)
            topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=records))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=ACKS_ALL,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )


def rounds(outgoing: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    """Split the batches into chunks of about ROUND_BYTES."""
    chunk: list[Outgoing] = []
    size = 0
    for each in outgoing:
        chunk.append(each)
        size += len(each.data)
        if size >= ROUND_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def new_producer(cluster: WireCluster) -> tuple[int, int]:
    """Return a new producer id and its epoch. Raises WireError, OSError."""
    deadline = time.monotonic() + DELIVERY_SECONDS_MAX
    while True:
        answer = cluster.any_call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))
        if not answer.error_code:
            return answer.producer_id, answer.producer_epoch
        problem = WireError(answer.error_code, "a producer id")
        if not problem.is_retriable or time.monotonic() > deadline:
            raise problem
        time.sleep(RETRY_SECONDS)
