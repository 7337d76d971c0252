"""The sink that writes each micro-batch once: rows numbered per partition under an identity that every attempt
shares.

An attempt asks the leaders how far its identity has come, reads that back (it must be committed, and the same rows),
and goes on behind it. Two attempts at once cannot write a row twice: the leader takes a sequence only once and only
in order; the one that is behind finds out, and goes on behind the other. Nothing is kept anywhere but in the log.
What it asks of a query: a task of a batch, tried again, has the same rows in the same order.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.spark.batch_encoder import Row, encode_batch
from kraft.spark.batch_identity import BatchIdentity, counts_by_id
from kraft.spark.errors import SourceError, not_repeatable
from kraft.spark.pending_rows import Batch, PartitionRows, first_of_each
from kraft.spark.seen_rows import SeenRows
from kraft.spark.wire import RETRY_SECONDS, WireCluster, WireConnection, WireError
from kraft.spark.written_log import ProducerState, producer_states, producers_since, read_back

BATCH_BYTES = 512 << 10
ROUND_BYTES = 2 << 20
REQUEST_TIMEOUT_MS = 30_000
DELIVERY_SECONDS_MAX = 120.0
UNKNOWN_TOPIC_SECONDS = 5.0
"""So long a topic may be unknown before it is not there: brokers hear of a new one one after the other."""
RESYNC = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
)
TOO_LARGE = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))
ACKS_ALL = -1


class TopicWriter:
    """One task's part of one micro-batch in one topic."""

    def __init__(
        self,
        cluster: WireCluster,
        topic: str,
        identity: BatchIdentity,
        codec: int,
        ends_before: Mapping[int, int] | None = None,
        *,
        may_differ: bool = False,
    ) -> None:
        """`ends_before`: where each partition ended before any attempt of this batch; None where nobody knows.
        `may_differ`: rows that differ from an earlier attempt's are written as well, not refused."""
        self.ends_before = ends_before
        self.may_differ = may_differ
        self.cluster = cluster
        self.topic = topic
        self.identity = identity
        self.codec = codec
        self.partition_count = 0
        self.opened_count = 0
        self.producer_id = 0
        self.has_sent = False
        self.parts: dict[int, PartitionRows] = {}
        # sent (under which number) and not answered yet; None: could not be sent
        self.round: list[tuple[WireConnection | None, int, list[Batch]]] = []
        self.round_bytes = 0
        self.batch_bytes = BATCH_BYTES  # smaller, where the topic takes less
        self.end_offset_max: dict[int, int] = {}

    def open(self) -> None:
        """Find out what earlier attempts have written. Raises SourceError when a later batch of the query is in the
        log."""
        deadline = time.monotonic() + DELIVERY_SECONDS_MAX
        states, used = self.look(deadline)
        self.opened_count = len(states)
        self.partition_count = used.pop() if used else len(states)
        self.producer_id = self.identity.producer_id(self.partition_count)
        for partition, producers in states.items():
            state = producers.get(self.producer_id)
            written = state.last_sequence + 1 if state is not None and state.epoch == self.identity.epoch else 0
            name = f"{self.topic}-{partition}"
            seen = self.seen(partition, written, deadline) if written else SeenRows(0)
            self.parts[partition] = PartitionRows(name, written, seen, may_differ=self.may_differ)

    def look(self, deadline: float) -> tuple[dict[int, dict[int, ProducerState]], set[int]]:
        """What leaders know of each partition's producers, and the number of partitions that attempts of this task
        have spread its rows over: one, or none."""
        while True:
            states = producer_states(self.cluster, self.topic, range(self.count_partitions(deadline)), deadline)
            candidates, used = counts_by_id(self.identity, len(states)), set()
            if self.ends_before is not None:
                for partition, producers in states.items():
                    # A leader that knows none of them may have forgotten one: the log has what it wrote.
                    if not producers.keys() & candidates.keys():
                        begun = self.ends_before.get(partition, 0)
                        producers |= producers_since(self.cluster, self.topic, partition, candidates, begun, deadline)
            for producers in states.values():
                for producer_id in producers.keys() & candidates.keys():
                    self.check_epoch(producers[producer_id].epoch)
                    if producers[producer_id].epoch == self.identity.epoch:
                        used.add(candidates[producer_id])
            if len(used) > 1 and self.may_differ:
                used = {max(used)}
            if len(used) > 1:
                raise spread_twice(self.topic, used)
            if max(used, default=0) <= len(states):
                return states, used
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{self.topic} had {max(used)} partitions when an earlier attempt wrote to it, and "
                    f"brokers still tell of {len(states)}"
                )
            time.sleep(RETRY_SECONDS)  # Who was asked has not heard yet that the topic has grown.

    def count_partitions(self, deadline: float) -> int:
        """Of the topic, now. Raises WireError for one that is not there, OSError."""
        began = time.monotonic()
        while True:
            try:
                return len(self.cluster.partitions(self.topic, fresh=True))
            except (OSError, WireError) as problem:
                final = isinstance(problem, WireError) and not problem.is_retriable
                unknown = isinstance(problem, WireError) and problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if unknown:
                    self.cluster.create(self.topic)
                if final or time.monotonic() > (min(deadline, began + UNKNOWN_TOPIC_SECONDS) if unknown else deadline):
                    raise
                time.sleep(RETRY_SECONDS)

    def check_alone(self) -> None:
        """That no attempt spreads the same rows over another number of partitions: ids differ then, and nothing
        would fence. Only if the topic has grown.

        Raises SourceError: before anything is sent this attempt gives way; in the end rows may be there twice, and
        it is told.
        """
        deadline = time.monotonic() + DELIVERY_SECONDS_MAX
        if self.count_partitions(deadline) != self.opened_count:
            _, used = self.look(deadline)
            if used - {self.partition_count} and not self.may_differ:
                raise spread_twice(self.topic, used | {self.partition_count})

    def check_epoch(self, epoch: int) -> None:
        if epoch > self.identity.epoch:
            raise SourceError(
                "KAFKA_SINK_BATCH_FENCED",
                f"{self.identity} is older than what this query has written to {self.topic}: another run of "
                "the query goes on from the same checkpoint, or "
                "the checkpoint was set back. Stop the other run; to write again from an older checkpoint on "
                "purpose, set exactlyOnceId to a new text.",
            )

    def seen(self, partition: int, written: int, deadline: float) -> SeenRows:
        return read_back(
            self.cluster, self.topic, partition, self.producer_id, self.identity.epoch, written - 1, deadline
        )

    def add(self, partition: int, row: Row) -> None:
        part = self.parts.get(partition)
        if part is None:
            raise ValueError(
                f"Invalid partition given with record: {partition} is not in the range [0...{len(self.parts)})."
            )
        if part.pending and part.pending_bytes + row.size > self.batch_bytes:
            self.push()
        if part.add(row):
            self.round_bytes += row.size
            if part.pending_bytes >= self.batch_bytes or self.round_bytes >= ROUND_BYTES:
                self.push()

    def push(self) -> None:
        """Send all that is pending, once the round before is acknowledged."""
        batches = [part.take(partition) for partition, part in sorted(self.parts.items()) if part.pending]
        self.round_bytes = 0
        for batch in batches:
            self.encode(batch)
        self.settle()
        if batches and not self.has_sent:
            self.check_alone()
            self.has_sent = True
        self.send(batches)

    def finish(self) -> None:
        """Wait until everything is acknowledged. Raises SourceError when an earlier attempt has written more."""
        self.push()
        self.settle()
        if self.has_sent:
            self.check_alone()
        for partition, part in sorted(self.parts.items()):
            if part.count < part.written and not self.may_differ:
                raise not_repeatable(
                    f"{part.count} rows for {self.topic}-{partition}, where an earlier attempt had {part.written}"
                )

    def encode(self, batch: Batch) -> None:
        if batch.encoded is None:
            batch.encoded = encode_batch(batch.rows, self.codec, self.producer_id, self.identity.epoch, batch.sequence)

    def send(self, batches: list[Batch]) -> None:
        """Send to the leaders without waiting."""
        by_leader: dict[WireConnection, list[Batch]] = {}
        unsent: list[Batch] = []
        for batch in batches:
            try:
                by_leader.setdefault(self.cluster.leader(self.topic, batch.partition), []).append(batch)
            except (OSError, WireError) as problem:
                if isinstance(problem, WireError) and not problem.is_retriable:
                    raise
                self.cluster.stale(self.topic)
                unsent.append(batch)
        for connection, group in by_leader.items():
            data = [PartitionProduceData(index=batch.partition, records=batch.encoded) for batch in group]
            request = ProduceRequest(
                acks=ACKS_ALL,
                timeout_ms=REQUEST_TIMEOUT_MS,
                topic_data=[TopicProduceData(name=self.topic, partition_data=data)],
            )
            try:
                self.round.append((connection, connection.send(request), group))
            except OSError:
                self.cluster.stale(self.topic, connection)
                unsent += group
        if unsent:
            self.round.append((None, 0, unsent))

    def settle(self) -> None:
        """Wait for the answers of the round; send again what must be, until all is acknowledged or
        DELIVERY_SECONDS_MAX have passed."""
        deadline = time.monotonic() + DELIVERY_SECONDS_MAX
        behind: list[Batch] = []  # to be sent again, and what comes behind it in its partition
        while self.round:
            answered = [(group, self.answers(connection, number)) for connection, number, group in self.round]
            self.round = []
            for group, answers in answered:
                behind += (
                    group
                    if answers is None
                    else [
                        left for batch in group for left in self.settle_batch(batch, answers[batch.partition], deadline)
                    ]
                )
            again, behind = first_of_each(behind)
            if again:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"{len(again) + len(behind)} batches for {self.topic} were not acknowledged within "
                        f"{DELIVERY_SECONDS_MAX:g} s"
                    )
                time.sleep(RETRY_SECONDS)
                for batch in again:
                    self.encode(batch)
                self.send(again)

    def answers(self, connection: WireConnection | None, number: int) -> dict[int, Any] | None:
        """By partition; None where the request was not sent or the connection broke."""
        if connection is None:
            return None
        try:
            return {each.index: each for each in connection.receive(number).responses[0].partition_responses}
        except OSError:
            self.cluster.stale(self.topic, connection)
            return None

    def settle_batch(self, batch: Batch, answer: Any, deadline: float) -> list[Batch]:
        code = answer.error_code
        if not code:
            self.end_offset_max[batch.partition] = max(
                self.end_offset_max.get(batch.partition, 0), answer.base_offset + len(batch.rows)
            )
            return []
        if code in RESYNC:
            return self.resume(batch, deadline)
        if code in TOO_LARGE:
            return self.smaller(batch, code)
        problem = WireError(
            code,
            f"{self.identity} at {self.topic}-{batch.partition}"
            + (f" ({answer.error_message})" if answer.error_message else ""),
        )
        if code == ErrorCode.INVALID_PRODUCER_EPOCH:
            self.check_epoch(self.identity.epoch + 1)
        if not problem.is_retriable:
            raise problem
        self.cluster.stale(self.topic)
        return [batch]

    def smaller(self, batch: Batch, code: int) -> list[Batch]:
        """Instead of what the topic does not take at once; batches to come are made as small. Raises WireError for a
        single row."""
        size = len(batch.encoded or b"")
        if len(batch.rows) == 1:
            what = f"row {batch.sequence} of {self.identity} at {self.topic}-{batch.partition} has {size} bytes"
            raise WireError(code, f"{what}, and the topic takes less (max.message.bytes; segment.bytes)")
        self.batch_bytes = max(1, min(self.batch_bytes, size // 2))
        return batch.halves()

    def resume(self, batch: Batch, deadline: float) -> list[Batch]:
        """Another attempt has written rows of `batch`, or all: go on behind them, if they are the same."""
        state = producer_states(self.cluster, self.topic, [batch.partition], deadline)[batch.partition].get(
            self.producer_id
        )
        if state is not None:
            self.check_epoch(state.epoch)
        written = state.last_sequence + 1 if state is not None and state.epoch == self.identity.epoch else 0
        if written < batch.sequence:
            raise WireError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"{self.topic}-{batch.partition} has lost acknowledged rows of {self.identity}",
            )
        if written > batch.sequence:
            seen = self.seen(batch.partition, written, deadline)
            for number, row in zip(range(batch.sequence, min(written, batch.end)), batch.rows, strict=False):
                if seen.differs(number, row.content):
                    raise not_repeatable(
                        f"row {number} for {self.topic}-{batch.partition} differs from what another attempt wrote"
                    )
        if written >= batch.end:
            return []
        return [Batch(batch.partition, written, batch.rows[written - batch.sequence :])]


def spread_twice(topic: str, counts: set[int]) -> SourceError:
    return not_repeatable(
        f"attempts have spread the rows over {sorted(counts)} partitions of {topic}, which has grown meanwhile"
    )
