"""The last committed micro-batch of a query: a record in a compacted topic of the target cluster, written in the
batch's own transaction.

A compacted topic keeps the last record of each key for ever: unlike offsets of a group, which expire.

A reader has to see every earlier commit, also when the node it asks was deposed and does not know it. So whoever
commits first writes its own record, and then reads what is before it in the log: that record was acknowledged by the
replicas in sync, and the transaction before it had ended, with its marker, before this one began.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kraft.client.partitioner import partition_for_key
from kraft.protocol.records.control_record import ControlRecordType, control_type_of
from kraft.protocol.records.record_batch import RecordBatch
from kraft.spark.client.wire import WireCluster
from kraft.spark.sink.batch_encoder import Row
from kraft.spark.sink.log_reading import committed
from kraft.spark.sink.staged_batch import packed

TOPIC = "__kraft_spark_commits"
PARTITIONS = 16
"""Of the topic as it is made. Keys stay in these, whatever is added later."""
CONFIGS: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "segment.bytes": str(4 << 20),
        "min.cleanable.dirty.ratio": "0.1",
        "retention.ms": "-1",
    }
)
TAIL_OFFSETS = 200
TAIL_GROWTH = 16
NO_CODEC = 0


class CommittedBatch(NamedTuple):
    """Micro-batch `batch` with so many `rows`, written in the run `run` of the query."""

    batch: int
    rows: int
    run: str


def partition_of(key: str) -> int:
    return partition_for_key(key.encode(), PARTITIONS)


def record_of(key: str, value: CommittedBatch, now_ms: int) -> bytes:
    return packed([Row(now_ms, key.encode(), json.dumps(value._asdict()).encode(), ())], NO_CODEC)


def last_before(cluster: WireCluster, key: str, end: int, deadline: float) -> CommittedBatch | None:
    """The last batch that was committed under `key`, of those whose records are below offset `end`. All transactions
    of the key have ended there."""
    partition = partition_of(key)
    low, _ = cluster.bounds(TOPIC, partition, deadline)
    window = TAIL_OFFSETS
    while True:
        start = max(low, end - window)
        found = last_of(committed(cluster, TOPIC, partition, start, end, deadline), key.encode())
        if found is not None or start == low:
            return found
        window *= TAIL_GROWTH


def last_of(found: Iterable[RecordBatch], key: bytes) -> CommittedBatch | None:
    """The last record of `key` behind which there is a marker that commits it."""
    last: CommittedBatch | None = None
    waiting: dict[int, CommittedBatch] = {}  # By producer id: written, and not ended yet.
    for batch in found:
        if batch.is_control:
            ended = waiting.pop(batch.producer_id, None)
            if ended is not None and control_type_of(batch.records()[0].key) == ControlRecordType.COMMIT:
                last = ended
            continue
        for record in batch.records():
            if record.key == key:
                waiting[batch.producer_id] = CommittedBatch(**json.loads(record.value or b""))
    return last
