"""What of a micro-batch the log holds already: asked of the leaders (who has written how far), and read back from
what is committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from kraft.common.ids import DEBUGGING_REPLICA
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.spark.options import LATEST
from kraft.spark.seen_rows import SeenRows
from kraft.spark.wire import RETRY_SECONDS, WireCluster, WireConnection, WireError

log = logging.getLogger(__name__)
TAIL_OFFSETS = 10_000
FETCH_BYTES = 8 << 20
FETCH_WAIT_MS = 100


class LogStartMoved(WireError):
    """What was to be read was deleted meanwhile."""


class ProducerState(NamedTuple):
    """What a leader knows of a producer in one partition. `last_sequence` is -1 before its first record."""

    epoch: int
    last_sequence: int


def producer_states(
    cluster: WireCluster, topic: str, partitions: Iterable[int], deadline: float
) -> dict[int, dict[int, ProducerState]]:
    """By partition, by producer id. Waits out elections until `deadline` (monotonic). Raises WireError, OSError."""
    wanted = sorted(partitions)
    while True:
        found: dict[int, dict[int, ProducerState]] = {}
        connection: WireConnection | None = None
        try:
            by_leader: dict[WireConnection, list[int]] = {}
            for partition in wanted:
                connection = cluster.leader(topic, partition)
                by_leader.setdefault(connection, []).append(partition)
            for connection, indexes in by_leader.items():
                answer = connection.call(
                    DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=indexes)])
                )
                for each in answer.topics[0].partitions:
                    if each.error_code:
                        raise WireError(each.error_code, f"producers of {topic}-{each.partition_index}")
                    found[each.partition_index] = {
                        p.producer_id: ProducerState(p.producer_epoch, p.last_sequence) for p in each.active_producers
                    }
            return found
        except (OSError, WireError) as problem:
            if time.monotonic() > deadline or (isinstance(problem, WireError) and not problem.is_retriable):
                raise
            cluster.stale(topic, connection if isinstance(problem, OSError) else None)
            time.sleep(RETRY_SECONDS)


def producers_since(
    cluster: WireCluster, topic: str, partition: int, wanted: Container[int], begun: int, deadline: float
) -> dict[int, ProducerState]:
    """What the log itself tells of producers that the leader may have forgotten: the newest epoch of each in `wanted`
    that has records at or behind offset `begun`, and its last sequence.

    Waits until all that the leader has is committed. Raises TimeoutError when that does not come about by `deadline`.
    """
    found: dict[int, ProducerState] = {}
    while True:
        low, _ = cluster.bounds(topic, partition, deadline)
        end, _ = log_end(cluster, topic, partition, deadline)
        try:
            for batch in committed(cluster, topic, partition, max(low, begun), end, deadline):
                if batch.producer_id in wanted and batch.next_offset > begun:
                    state = ProducerState(batch.producer_epoch, batch.last_sequence)
                    found[batch.producer_id] = max(state, found.get(batch.producer_id, state))
        except LogStartMoved:
            if time.monotonic() > deadline:
                raise
            continue
        return found


def read_back(
    cluster: WireCluster, topic: str, partition: int, producer_id: int, epoch: int, last_sequence: int, deadline: float
) -> SeenRows:
    """The committed records of (producer, epoch), numbered by sequence, once they reach up to `last_sequence`.

    What a leader knows may still be lost with it; what a consumer can read is not. So this waits until all of it can
    be read. Knows fewer only where retention has deleted some, and says so: only what was committed is ever deleted.
    Looks at the tail first and goes back until it finds the first. Raises TimeoutError when the records do not
    become readable, as after a leader that lost them: then the task is to be tried again.
    """
    known = ProducerState(epoch, last_sequence)
    window, settled = TAIL_OFFSETS, None
    while True:
        low, high = cluster.bounds(topic, partition, deadline)
        start = max(low, high - window)
        try:
            found, first, last = rows_between(cluster, topic, partition, producer_id, known, (start, high), deadline)
        except LogStartMoved:
            if time.monotonic() > deadline:
                raise
            continue
        if first > 0 and start > low:
            window *= 4
        elif last >= last_sequence or settled == cluster.view.epoch(topic, partition):
            tell_deleted(topic, partition, first, low)
            return found
        elif time.monotonic() > deadline:
            raise TimeoutError(not_there(topic, partition, last_sequence))
        else:
            settled = settled_epoch(cluster, topic, partition, producer_id, known, deadline) if low > 0 else None
            if settled is None:
                time.sleep(RETRY_SECONDS)


def rows_between(
    cluster: WireCluster,
    topic: str,
    partition: int,
    producer_id: int,
    known: ProducerState,
    bounds: tuple[int, int],
    deadline: float,
) -> tuple[SeenRows, int, int]:
    """What is read back within `bounds`, and its first and last sequence; behind the last that is known, and -1, if
    there is nothing."""
    found, first, last = SeenRows(known.last_sequence + 1), known.last_sequence + 1, -1
    for batch in committed(cluster, topic, partition, *bounds, deadline):
        if (batch.producer_id, batch.producer_epoch) == (producer_id, known.epoch):
            first, last = min(first, batch.base_sequence), max(last, batch.last_sequence)
            for record in batch.records():
                found.note(
                    batch.base_sequence + record.offset - batch.base_offset, (record.key, record.value, record.headers)
                )
    return found, first, last


def settled_epoch(
    cluster: WireCluster, topic: str, partition: int, producer_id: int, known: ProducerState, deadline: float
) -> int | None:
    """The leader epoch in which all that the leader knows of a producer is committed; None if that cannot be said,
    or is not so yet.

    Records that are neither readable nor still to be committed were deleted. So one leader, in one epoch, must know
    the producer as far, and only then say where its log ends, and then have that as its high watermark. The epoch is
    checked on both sides: by look-ups that name it, and by the end's answer.
    """
    cluster.offset(topic, partition, LATEST, deadline)
    epoch = cluster.view.epoch(topic, partition)
    state = producer_states(cluster, topic, [partition], deadline)[partition].get(producer_id)
    if state is None or state.epoch != known.epoch or state.last_sequence < known.last_sequence:
        return None
    end, told = log_end(cluster, topic, partition, deadline)
    high = cluster.offset(topic, partition, LATEST, deadline)
    return epoch if told == epoch == cluster.view.epoch(topic, partition) and high >= end else None


def log_end(cluster: WireCluster, topic: str, partition: int, deadline: float) -> tuple[int, int]:
    """Where the leader's log ends, committed or not, and the epoch it is in."""

    def ask(connection: WireConnection) -> tuple[int, int]:
        wanted = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=LATEST)]
        )
        answer = (
            connection.call(ListOffsetsRequest(replica_id=DEBUGGING_REPLICA, topics=[wanted])).topics[0].partitions[0]
        )
        if answer.error_code:
            raise WireError(answer.error_code, f"the end of {topic}-{partition}")
        return int(answer.offset), int(answer.leader_epoch)

    return cluster.ask_leader(topic, partition, deadline, ask)


def tell_deleted(topic: str, partition: int, first: int, low: int) -> None:
    if first > 0:
        what = (
            f"rows 0 to {first - 1} of this batch for {topic}-{partition} were written by an earlier attempt and "
            f"deleted since (the log starts at {low})"
        )
        log.warning("%s: they count as written, and are not compared", what)


def not_there(topic: str, partition: int, last_sequence: int) -> str:
    what = f"records of {topic}-{partition} up to sequence {last_sequence} of this batch are not committed"
    return (
        f"{what}: they wait for replicas in sync (min.insync.replicas), or a leader that is gone has taken them "
        "with it; the task is to be tried again"
    )


def committed(
    cluster: WireCluster, topic: str, partition: int, start: int, end: int, deadline: float
) -> Iterator[RecordBatch]:
    """The batches that hold offsets `[start, end)`, CRC checked."""
    position = start
    while position < end:
        wanted = FetchTopic(
            topic=topic,
            partitions=[FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES)],
        )
        request = FetchRequest(max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=[wanted])
        answer = cluster.call_leader(topic, partition, request, deadline).responses[0].partitions[0]
        if answer.error_code:
            kind = LogStartMoved if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE else WireError
            problem = kind(answer.error_code, f"reading {topic}-{partition} at {position}")
            if not problem.is_retriable or time.monotonic() > deadline:
                raise problem
            cluster.stale(topic)
            time.sleep(RETRY_SECONDS)
            continue
        before = position
        for batch in batches(answer.records or b"", partial_tail=True):
            batch.verify_crc()
            position = batch.next_offset
            yield batch
        if position == before and time.monotonic() > deadline:
            raise TimeoutError(f"nothing to read from {topic}-{partition} at {position}, below its end {end}")
