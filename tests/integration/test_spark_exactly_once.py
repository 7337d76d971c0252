"""The sink that writes each micro-batch in one transaction, against a real node and without Spark: attempts that
overlap, drivers that die at any point, drivers that compete."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from jepsen.spark.spark_logs import read_to_the_end
from kraft.spark.client.wire import WireCluster, WireError
from kraft.spark.errors import SourceError
from kraft.spark.sink import committed_batches, row_packer
from kraft.spark.sink.batch_commit import BatchContent, BatchOrigin, CommitRules, SinkIdentity, commit_batch, outgoing
from kraft.spark.sink.batch_sender import Outgoing
from kraft.spark.sink.exactly_once_writer import OnceWriter
from kraft.spark.sink.log_reading import committed
from kraft.spark.sink.sink_transaction import SinkTransaction
from kraft.spark.sink.staged_batch import StagedBatch
from kraft.spark.sink.staging import Staging
from tests.integration.clusters import Cluster
from tests.unit.spark.sink_rows import incoming_rows

Rows = list[tuple[Any, ...]]
TIMEOUT_MS = 60_000
RULES = CommitRules(TIMEOUT_MS, "fail", once_a_run=False)
BIG = b"x" * (300 << 10)


@pytest.fixture
def wires(cluster: Cluster) -> Iterator[WireCluster]:
    opened = WireCluster(cluster.bootstrap)
    yield opened
    opened.close()


def sink_of(topic: str) -> SinkIdentity:
    return SinkIdentity("query", topic, "")


def rows_of(topic: str, numbers: range) -> Rows:
    return [(topic, b"k%d" % number, b"%d" % number, None, None, None) for number in numbers]


def attempt(wires: WireCluster, topic: str, rows: Rows, *, batch: int = 0, task: int = 0, codec: int = 0) -> OnceWriter:
    """One attempt at a task, whose rows are handed on."""
    writer = OnceWriter(wires, batch, task, codec, Staging(wires, sink_of(topic).staging_topic), lambda: None)
    writer.write(incoming_rows(rows))
    return writer


def content_of(parcels: tuple[StagedBatch, ...]) -> BatchContent:
    return BatchContent(sum(each.rows for each in parcels), parcels)


def commit(
    wires: WireCluster, topic: str, parcels: tuple[StagedBatch, ...], batch: int = 0, rules: CommitRules = RULES
) -> bool:
    return commit_batch(wires, sink_of(topic), BatchOrigin("query", batch, "run"), content_of(parcels), rules)


def left_open(wires: WireCluster, topic: str, parcels: tuple[StagedBatch, ...], batch: int = 0) -> SinkTransaction:
    """What a driver leaves that is killed before it ends its transaction."""
    key = sink_of(topic).transactional_id
    transaction = SinkTransaction(wires, key, TIMEOUT_MS)
    transaction.begin()
    note = committed_batches.TOPIC, committed_batches.partition_of(key)
    transaction.add([note, *((each.topic, each.partition) for each in parcels)])
    value = committed_batches.CommittedBatch(batch, sum(each.rows for each in parcels), "killed")
    transaction.write([Outgoing(*note, committed_batches.record_of(key, value, 0))])
    transaction.write(outgoing(parcels, Staging(wires, sink_of(topic).staging_topic)))
    return transaction


def values(cluster: Cluster, topic: str) -> list[int]:
    """Of committed records, as librdkafka reads by default."""
    return sorted(int(message.value() or b"") for message in read_to_the_end(cluster.bootstrap, topic))


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_that_is_written_again_is_in_the_log_once(cluster: Cluster, wires: WireCluster, codec: int) -> None:
    topic = cluster.create(f"again-{codec}", 3)
    done = [
        commit(wires, topic, attempt(wires, topic, rows_of(topic, range(100)), codec=codec).finish()) for _ in range(3)
    ]
    assert done == [True, False, False]
    assert values(cluster, topic) == list(range(100))


@pytest.mark.parametrize("size", [0, 20_000])
def test_overlapping_attempts_with_other_row_orders_leave_only_the_rows_of_the_chosen_attempt(
    cluster: Cluster, wires: WireCluster, size: int
) -> None:
    """A zombie hands on a part of the rows while its successor, whose rows come in another order, is at work."""
    topic = cluster.create(f"overlap-{size}", 1)
    rows = [(topic, None, b"%d" % number + b" " * size, None, None, None) for number in range(200)]
    other = random.Random(1).sample(rows, len(rows))
    zombie_wires = WireCluster(cluster.bootstrap)
    zombie, successor = attempt(zombie_wires, topic, rows[:100]), attempt(wires, topic, other[:100])
    zombie.write(incoming_rows(rows[100:150]))
    successor.write(incoming_rows(other[100:]))
    parcels = successor.finish()
    zombie.finish()
    zombie_wires.close()
    assert commit(wires, topic, parcels)
    assert values(cluster, topic) == list(range(200))


def test_no_record_is_readable_before_the_driver_commits_and_then_all_are(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("at-once", 3)
    tasks = [attempt(wires, topic, rows_of(topic, range(start, start + 50)), task=start) for start in (0, 50)]
    parcels = tuple(parcel for task in tasks for parcel in task.finish())
    transaction = left_open(wires, topic, parcels)
    assert values(cluster, topic) == []
    transaction.end(is_commit=True)
    assert values(cluster, topic) == list(range(100))


def test_records_a_killed_driver_has_not_committed_are_never_visible(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("killed", 2)
    parcels = attempt(wires, topic, rows_of(topic, range(60))).finish()
    left_open(wires, topic, parcels[:1])
    assert commit(wires, topic, attempt(wires, topic, rows_of(topic, range(60))).finish())
    assert values(cluster, topic) == list(range(60))


def test_records_a_killed_driver_has_committed_are_not_written_again(cluster: Cluster, wires: WireCluster) -> None:
    """Between the transaction's end and Spark's note of it."""
    topic = cluster.create("noted-late", 2)
    left_open(wires, topic, attempt(wires, topic, rows_of(topic, range(60))).finish()).end(is_commit=True)
    assert not commit(wires, topic, attempt(wires, topic, rows_of(topic, range(60))).finish())
    assert commit(wires, topic, attempt(wires, topic, rows_of(topic, range(60, 90)), batch=1).finish(), batch=1)
    assert values(cluster, topic) == list(range(90))


def test_a_fenced_driver_commits_no_more_batches(cluster: Cluster, wires: WireCluster) -> None:
    topic, old = cluster.create("replaced", 1), WireCluster(cluster.bootstrap)
    transaction = left_open(old, topic, attempt(old, topic, rows_of(topic, range(10))).finish())
    assert commit(wires, topic, attempt(wires, topic, rows_of(topic, range(10))).finish())
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_FENCED"):
        transaction.write(
            [Outgoing(topic, 0, attempt(old, topic, rows_of(topic, range(10, 20))).finish()[0].data or b"")]
        )
    with pytest.raises(SourceError, match="KAFKA_SINK_BATCH_FENCED"):
        transaction.end(is_commit=True)
    old.close()
    assert values(cluster, topic) == list(range(10))


def test_a_batch_older_than_the_last_committed_one_is_refused(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("set-back", 1)
    for batch in (3, 4):
        assert commit(wires, topic, attempt(wires, topic, rows_of(topic, range(batch, batch + 1))).finish(), batch)
    with pytest.raises(SourceError, match=r"KAFKA_SINK_BATCH_FENCED.*exactlyOnceId"):
        commit(wires, topic, attempt(wires, topic, rows_of(topic, range(3, 4))).finish(), 3)
    assert values(cluster, topic) == [3, 4]


def test_a_committed_batch_retried_with_other_rows_is_reported(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("other-rows", 1)
    assert commit(wires, topic, attempt(wires, topic, rows_of(topic, range(10))).finish())
    more = attempt(wires, topic, rows_of(topic, range(11))).finish()
    with pytest.raises(SourceError, match=r"KAFKA_SINK_BATCH_NOT_REPEATABLE.*10 rows, and now it has 11"):
        commit(wires, topic, more)
    assert not commit(wires, topic, more, rules=RULES._replace(on_difference="keep"))
    assert values(cluster, topic) == list(range(10))
    assert commit(wires, topic, more, rules=RULES._replace(on_difference="atleastonce"))
    assert values(cluster, topic) == sorted([*range(10), *range(11)])


def test_a_run_that_writes_a_batch_twice_under_one_name_is_refused(cluster: Cluster, wires: WireCluster) -> None:
    topic, rules = cluster.create("twice-named", 1), RULES._replace(once_a_run=True)
    parcels = attempt(wires, topic, rows_of(topic, range(10))).finish()
    assert commit(wires, topic, parcels, rules=rules)
    with pytest.raises(SourceError, match="exactlyOnceId of its own"):
        commit(wires, topic, parcels, rules=rules)
    other_run = BatchOrigin("query", 0, "another run")
    assert not commit_batch(wires, sink_of(topic), other_run, content_of(parcels), rules)


def test_sinks_and_queries_do_not_block_each_other(
    cluster: Cluster, wires: WireCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all keep their numbers in one partition, and one of them has a transaction open."""
    monkeypatch.setattr(committed_batches, "partition_of", lambda _: 0)
    topic = cluster.create("shared", 1)
    cluster.create("stalled", 1)
    left_open(wires, "stalled", attempt(wires, "stalled", rows_of("stalled", range(3))).finish())
    for query in ("query", "other"):
        for once_id in ("", "second"):
            for _ in range(2):
                parcels = attempt(wires, topic, rows_of(topic, range(5))).finish()
                commit_batch(
                    wires, SinkIdentity(query, topic, once_id), BatchOrigin(query, 0, "run"), content_of(parcels), RULES
                )
    assert values(cluster, topic) == sorted(list(range(5)) * 4)


def test_a_batch_number_is_found_behind_many_numbers_of_other_topics(
    cluster: Cluster, wires: WireCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committed_batches, "TAIL_OFFSETS", 2)
    monkeypatch.setattr(committed_batches, "partition_of", lambda _: 1)
    topic, busy = cluster.create("quiet", 1), cluster.create("busy", 1)
    assert commit(wires, topic, attempt(wires, topic, rows_of(topic, range(5))).finish())
    for batch in range(20):
        assert commit(wires, busy, attempt(wires, busy, rows_of(busy, range(1))).finish(), batch)
    assert not commit(wires, topic, attempt(wires, topic, rows_of(topic, range(5))).finish())


def test_rows_of_a_large_batch_are_staged_and_deleted_after_their_commit(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("large", 2)
    staged = sink_of(topic).staging_topic
    for batch in range(2):
        parcels = attempt(wires, topic, [(topic, b"%d" % n, BIG, None, None, None) for n in range(20)]).finish()
        assert sum(each.data is not None for each in parcels) < 5
        assert commit(wires, topic, parcels, batch)
        low, high = wires.bounds(staged, 0, time.monotonic() + 30)
        assert low == high > 0
    assert [len(message.value() or b"") for message in read_to_the_end(cluster.bootstrap, topic)] == [len(BIG)] * 40


def test_missing_staged_rows_fail_the_attempt(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("gone", 1)
    parcels = attempt(wires, topic, [(topic, None, BIG, None, None, None) for _ in range(20)]).finish()
    staging = Staging(wires, sink_of(topic).staging_topic)
    staging.forget([each.place for each in parcels if each.place is not None][:1])
    with pytest.raises((SourceError, WireError), match=r"KAFKA_SINK_STAGED_ROWS_GONE|OFFSET_OUT_OF_RANGE"):
        commit(wires, topic, parcels)
    assert read_to_the_end(cluster.bootstrap, topic) == []


def test_one_batch_writes_rows_to_several_topics(cluster: Cluster, wires: WireCluster) -> None:
    names = [cluster.create(f"several-{index}", 2) for index in range(3)]
    rows = [row for number in range(90) for row in rows_of(names[number % 3], range(number, number + 1))]
    for _ in range(2):
        commit(wires, "several", attempt(wires, "several", rows).finish())
    assert [values(cluster, name) for name in names] == [list(range(index, 90, 3)) for index in range(3)]


def test_records_arrive_complete(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("whole", 4)
    headers = [("a", b"1"), ("ü", None), ("a", b"")]
    odd = [
        (topic, None, None, 2, headers, 1_700_000_000_123_000),
        (topic, b"", b"", 2, None, 1_600_000_000_000_999),
        (topic, "text", "text", 2, [], None),
    ]
    commit(wires, topic, attempt(wires, topic, odd).finish())
    found = [record for batch in committed(wires, topic, 2, 0, 3, 1e18) for record in batch.records()][:3]
    assert [(each.key, each.value, each.headers) for each in found] == [
        (None, None, tuple(headers)),
        (b"", b"", ()),
        (b"text", b"text", ()),
    ]
    assert [each.timestamp for each in found[:2]] == [1_700_000_000_123, 1_600_000_000_000]
    with pytest.raises(ValueError, match="Invalid partition"):
        attempt(wires, topic, [(topic, None, b"", 4, None, None)])


def test_a_topic_with_a_small_batch_limit_gets_small_batches(cluster: Cluster, wires: WireCluster) -> None:
    topic = cluster.create("small", 2, max_message_bytes="3000")
    assert commit(wires, topic, attempt(wires, topic, rows_of(topic, range(2000))).finish())
    assert values(cluster, topic) == list(range(2000))
    with pytest.raises(WireError, match=r"a row for small-0 has \d+ bytes.*max\.message\.bytes"):
        commit(wires, topic, attempt(wires, topic, [(topic, None, BIG, 0, None, None)]).finish(), 1)
    assert values(cluster, topic) == list(range(2000))


def test_rows_without_a_key_are_spread_over_partitions(
    cluster: Cluster, wires: WireCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_packer.Placement, "BLOCK", 10)
    topic = cluster.create("spread", 4)
    rows = [(topic, None, b"%d" % number, None, None, None) for number in range(40)]
    parcels = attempt(wires, topic, rows).finish()
    assert sorted((each.partition, each.rows) for each in parcels) == [(index, 10) for index in range(4)]


def test_read_uncommitted_consumers_see_aborted_records_of_the_sink(cluster: Cluster, wires: WireCluster) -> None:
    """Which is why the manual asks for read_committed."""
    topic = cluster.create("uncommitted", 1)
    left_open(wires, topic, attempt(wires, topic, rows_of(topic, range(5))).finish()).abort()
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": "u", "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, "isolation.level": "read_uncommitted"})
    consumer.subscribe([topic])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.value() == b"0"
    assert values(cluster, topic) == []
