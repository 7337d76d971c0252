"""The one transaction in which the driver writes a micro-batch.

Whoever begins a transaction under a transactional id ends the one before it, and fences its owner: the coordinator
gives out a new epoch, and what the old one had not committed is aborted. A (producer id, epoch) is thus used by one
process alone, so that a leader's answer "I have this sequence" is about its own rows and nobody else's.

The requests are those of producers from before transaction.version 2. Kafka serves them at every level, each batch
gets an epoch of its own all the same, and what such a producer may still do late is stopped by leaders, who ask the
coordinator (KIP-890).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kraft.common.errors import KraftError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.record_batch import increment_sequence
from kraft.spark.errors import batch_fenced
from kraft.spark.parcel import count_of, halves, stamped
from kraft.spark.wire import RETRY_SECONDS, WireCluster, WireConnection, WireError

log = logging.getLogger(__name__)
NEEDED = {22: "InitProducerId", 24: "AddPartitionsToTxn", 26: "EndTxn"}
"""What a broker that serves transactions serves."""
COORDINATOR_OF_TRANSACTION = 1
ACKS_ALL = -1
REQUEST_TIMEOUT_MS = 30_000
DELIVERY_SECONDS_MAX = 120.0
"""So long one request is tried."""
ABORT_SECONDS_MAX = 10.0
ROUND_BYTES = 16 << 20
"""So much is taken from the tasks' rows at a time."""
TOO_LARGE = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))
FENCED = frozenset(
    (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
)

Partition = tuple[str, int]


class Outgoing(NamedTuple):
    """A batch of rows for one partition."""

    topic: str
    partition: int
    data: bytes

    @property
    def place(self) -> Partition:
        return self.topic, self.partition


def missing_api(cluster: WireCluster) -> str | None:
    """What the cluster lacks of transactions. Asks whichever node answers. Raises ConnectionError."""
    served = cluster.served()
    return next((name for key, name in NEEDED.items() if key not in served), None)


class SinkTransaction:
    """Used once: `begin`, `add`, `write`, then `end`."""

    def __init__(self, cluster: WireCluster, transactional_id: str, timeout_ms: int) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[Partition, int] = {}
        self.bytes_max: dict[str, int] = {}  # Of a batch, where a topic has refused a larger one.

    def begin(self) -> None:
        """Ends what is open under this id, whoever began it."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        answer = self.ask_coordinator(request, lambda answer: answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add(self, partitions: Iterable[Partition]) -> None:
        """Tell the coordinator where the transaction will write."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(set(partitions)):
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()
            ],
        )

        def code_of(answer: Any) -> int:
            codes = [
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ]
            # Beside the one that is at fault, others are only said to be left out.
            return next((code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)), 0)

        self.ask_coordinator(request, code_of)

    def end(self, *, is_commit: bool, seconds_max: float = DELIVERY_SECONDS_MAX) -> None:
        """Raises SourceError, WireError, OSError. The outcome is unknown then, and the next to begin finds it out."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        self.ask_coordinator(request, lambda answer: answer.error_code, seconds_max)

    def abort(self) -> None:
        """As well as it goes: else whoever begins next aborts it, or the coordinator when its time is over."""
        try:
            self.end(is_commit=False, seconds_max=ABORT_SECONDS_MAX)
        except (OSError, KraftError) as problem:
            log.warning("transaction %s is left to its coordinator: %s", self.transactional_id, problem)

    def write(self, outgoing: Iterable[Outgoing]) -> dict[Partition, int]:
        """All of it, in order within each partition. Answers the offset of each partition's last batch."""
        last: dict[Partition, int] = {}
        for chunk in rounds(outgoing):
            queues: dict[Partition, deque[bytes]] = {}
            for each in chunk:
                queues.setdefault(each.place, deque()).append(each.data)
            self.deliver(queues, last)
        return last

    def deliver(self, queues: dict[Partition, deque[bytes]], last: dict[Partition, int]) -> None:
        """One batch a partition at a time, until all are acknowledged."""
        deadline = time.monotonic() + DELIVERY_SECONDS_MAX
        while queues:
            answers = self.send({place: self.fitting(place[0], queue) for place, queue in queues.items()})
            is_done = False
            for place, answer in answers.items():
                if self.settle(place, queues[place], answer):
                    is_done, last[place] = True, answer.base_offset
                    if not queues[place]:
                        del queues[place]
            if is_done:
                deadline = time.monotonic() + DELIVERY_SECONDS_MAX
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{sorted(queues)} took nothing within {DELIVERY_SECONDS_MAX:g} s")
            if len(answers) < len(queues) or not is_done:
                time.sleep(RETRY_SECONDS)

    def fitting(self, topic: str, queue: deque[bytes]) -> bytes:
        """The first batch, split where the topic is known to take less."""
        while len(queue[0]) > self.bytes_max.get(topic, len(queue[0])) and count_of(queue[0]) > 1:
            queue.extendleft(reversed(halves(queue.popleft())))
        return queue[0]

    def settle(self, place: Partition, queue: deque[bytes], answer: Any) -> bool:
        """Whether the first batch of the queue is in the log. Raises SourceError, WireError for what does not pass."""
        code = answer.error_code
        if not code:
            self.sequences[place] = increment_sequence(self.sequences.get(place, 0), count_of(queue.popleft()))
            return True
        if code in FENCED:
            raise batch_fenced(self.transactional_id)
        if code in TOO_LARGE:
            size = len(queue[0])
            if count_of(queue[0]) == 1:
                what = f"a row for {place[0]}-{place[1]} has {size} bytes"
                raise WireError(code, f"{what}, and the topic takes less (max.message.bytes; segment.bytes)")
            self.bytes_max[place[0]] = min(self.bytes_max.get(place[0], size), size // 2)
            return False
        problem = WireError(code, f"{place[0]}-{place[1]} ({answer.error_message or 'no reason is given'})")
        if not problem.is_retriable:
            raise problem
        self.cluster.stale(place[0])
        return False

    def send(self, batches: dict[Partition, bytes]) -> dict[Partition, Any]:
        """What leaders answer. Of a partition that has no leader, or whose connection broke, nothing."""
        by_leader: dict[WireConnection, dict[Partition, bytes]] = {}
        for place, data in batches.items():
            try:
                by_leader.setdefault(self.cluster.leader(*place), {})[place] = data
            except (OSError, WireError) as problem:
                if isinstance(problem, WireError) and not problem.is_retriable:
                    raise
                self.cluster.stale(place[0])
        under_way = []
        for connection, group in by_leader.items():
            try:
                under_way.append((connection, group, connection.send(self.request(group))))
            except OSError:
                self.broken(connection, group)
        found: dict[Partition, Any] = {}
        for connection, group, number in under_way:
            try:
                answer = connection.receive(number)
            except OSError:
                self.broken(connection, group)
                continue
            for topic in answer.responses:
                found.update({(topic.name, each.index): each for each in topic.partition_responses})
        return found

    def broken(self, connection: WireConnection, group: Iterable[Partition]) -> None:
        for topic in {topic for topic, _ in group}:
            self.cluster.stale(topic, connection)

    def request(self, group: dict[Partition, bytes]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), data in group.items():
            sequence = self.sequences.get((topic, partition), 0)
            records = stamped(data, self.producer_id, self.epoch, sequence)
            topics.setdefault(topic, []).append(PartitionProduceData(index=partition, records=records))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=ACKS_ALL,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )

    def ask_coordinator(
        self, request: Any, code_of: Callable[[Any], int], seconds_max: float = DELIVERY_SECONDS_MAX
    ) -> Any:
        """Ask again what may pass. Raises SourceError where another has taken over, WireError, OSError."""
        deadline = time.monotonic() + seconds_max
        while True:
            try:
                address = self.coordinator()
                answer = self.cluster.call_at(address, request)
                code = code_of(answer)
                if not code:
                    return answer
                if code in FENCED:
                    raise batch_fenced(self.transactional_id)
                raise WireError(code, f"{type(request).__name__} of transactional id {self.transactional_id}")
            except (OSError, WireError) as problem:
                final = isinstance(problem, WireError) and not problem.is_retriable
                if final or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_SECONDS)

    def coordinator(self) -> tuple[str, int]:
        answer = self.cluster.any_call(
            FindCoordinatorRequest(key=self.transactional_id, key_type=COORDINATOR_OF_TRANSACTION)
        )
        if answer.error_code:
            raise WireError(answer.error_code, f"the coordinator of transactional id {self.transactional_id}")
        return answer.host, answer.port


def rounds(outgoing: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    """Chunks of about ROUND_BYTES."""
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
