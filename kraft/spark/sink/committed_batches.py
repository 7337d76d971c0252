"""The last committed micro-batch of a query: a record in a compacted topic of the target cluster, written in the
batch's own transaction.

A compacted topic keeps the last record of each key forever. A group's offsets would expire.

A reader must see every earlier commit, even if it asks a node that was deposed and does not know it. So the committing
run first writes its own record, and then reads the log before that record. The in-sync replicas have acknowledged the
record. The transaction before it had ended, with its marker, before this one started.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kraft.protocol.records.control_record import ControlRecordType, control_type_of
from kraft.protocol.records.record_batch import RecordBatch
from kraft.rpc_client.partitioner import partition_for_key
from kraft.spark.client.wire import WireCluster
from kraft.spark.sink.batch_encoder import Row
from kraft.spark.sink.log_reading import committed
from kraft.spark.sink.staged_batch import packed

TOPIC = "__kraft_spark_commits"
PARTITIONS = 16
"""Partitions of the created topic. Keys use only these, even if partitions are added later."""
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
    """A micro-batch with its number of rows, the run of the query that wrote it, and the transactions of its tasks (see
    `prepared_transactions.encoded`): they are committed even if the driver died before it ended them."""

    batch: int
    rows: int
    run: str
    transactions: Sequence[Sequence[str | int]] = ()


def partition_of(key: str) -> int:
    return partition_for_key(key.encode(), PARTITIONS)


def record_of(key: str, value: CommittedBatch, now_ms: int) -> bytes:
    """Encode the record. Releases that know no transactions of tasks can read it if there are none."""
    document = {name: each for name, each in value._asdict().items() if name != "transactions" or each}
    return packed([Row(now_ms, key.encode(), json.dumps(document).encode(), ())], NO_CODEC)


def last_before(cluster: WireCluster, key: str, end: int, deadline: float) -> CommittedBatch | None:
    """Return the last batch committed under `key` whose record is below offset `end`. All transactions of the key below
    it must have ended."""
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
    """Return the last record of `key` that is followed by its transaction's commit marker."""
    last: CommittedBatch | None = None
    waiting: dict[int, CommittedBatch] = {}  # By producer id: written, and not ended yet.
    for batch in found:
        if batch.is_control:
            ended = waiting.pop(batch.producer_id, None)
            # The cleaner may have left nothing of a marker but the header of its batch: of a transaction with records
            # that is a commit.
            kinds = [control_type_of(record.key) for record in batch.records()]
            if ended is not None and kinds in ([], [ControlRecordType.COMMIT]):
                last = ended
            continue
        for record in batch.records():
            if record.key == key:
                waiting[batch.producer_id] = CommittedBatch(**json.loads(record.value or b""))
    return last
