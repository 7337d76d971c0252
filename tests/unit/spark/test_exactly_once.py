"""The sink against a broker in memory: several topics, topics that grow, attempts that overlap, brokers that were
restarted."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.record_batch import batches
from kraft.spark import exactly_once, written_log
from kraft.spark.batch_identity import BatchIdentity, counts_by_id
from kraft.spark.errors import SourceError
from kraft.spark.leadership import Leader
from kraft.spark.once_writer import OnceWriter
from kraft.spark.seen_rows import SeenRows
from kraft.spark.wire import WireCluster, WireError
from tests.unit.spark.fake_cluster import FakeCluster
from tests.unit.spark.memory_broker import FakePartition

IDENTITY = BatchIdentity("query", 3, 0)
BIG = b"x" * (300 << 10)
SMALL = b"y" * 100


def rows(topic: str, *values: bytes) -> list[tuple[Any, ...]]:
    return [(topic, None, value, None, None, None) for value in values]


def attempt() -> OnceWriter:
    return OnceWriter(WireCluster("h:1"), IDENTITY, 0)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_a_refusal_of_one_topic_is_not_taken_for_anothers_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1, b=1)
    cluster.refuse["a", 1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    writer = attempt()
    writer.write(rows("a", *numbers(5)) + rows("b", SMALL))
    writer.write(rows("b", BIG, BIG))
    assert writer.finish() == (("a", 0, 5), ("b", 0, 3))
    assert cluster.topics["a"][0].values() == numbers(5)
    assert cluster.topics["b"][0].values() == [SMALL, BIG, BIG]


def test_records_that_a_topic_takes_one_by_one_are_not_sent_in_a_batch_that_it_does_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A topic takes 1 MiB by default."""
    cluster = FakeCluster(monkeypatch, a=1)
    values = [b"s" * (500 << 10), b"l" * (1000 << 10), b"s"]
    writer = attempt()
    writer.write(rows("a", *values))
    writer.finish()
    assert cluster.topics["a"][0].values() == values
    assert [len(list(batches(chunk))) for chunk in cluster.topics["a"][0].log] == [1, 1, 1]
    assert cluster.produced["a"] == 3, "none was refused"


def test_a_topic_that_takes_only_small_batches_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=2)
    cluster.message_bytes_max = 5_000
    values = [b"%03d" % number * 30 for number in range(2000)]
    writer = attempt()
    writer.write(rows("a", *values))
    assert writer.finish() == tuple(("a", index, partition.end) for index, partition in enumerate(cluster.topics["a"]))
    assert sorted(value for each in cluster.topics["a"] for value in each.values()) == sorted(values)  # type: ignore[type-var]
    assert max(len(chunk) for each in cluster.topics["a"] for chunk in each.log) <= 5_000
    before = cluster.produced["a"]
    later = OnceWriter(writer.cluster, IDENTITY._replace(batch=4), 0)
    later.write(rows("a", *values))
    later.finish()
    assert cluster.produced["a"] - before <= before


def test_a_record_that_the_topic_does_not_take_is_told_by_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    writer = attempt()
    writer.write(rows("a", SMALL, b"x" * (2 << 20), SMALL))
    with pytest.raises(
        WireError,
        match=r"row 1 of batch 3 of query query, task 0 at a-0 has \d+ bytes.*max\.message\.bytes.*MESSAGE_TOO_LARGE",
    ):
        writer.finish()
    assert cluster.topics["a"][0].values() == [SMALL]


def test_a_topic_that_comes_while_another_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=2, b=1)
    writer = attempt()
    writer.write(rows("a", BIG, BIG) + rows("b", BIG, BIG) + rows("a", SMALL))
    writer.finish()
    assert sorted(map(len, cluster.topics["a"][0].values() + cluster.topics["a"][1].values())) == [
        100,
        len(BIG),
        len(BIG),
    ]  # type: ignore[arg-type]
    assert cluster.topics["b"][0].values() == [BIG, BIG]


def test_an_attempt_that_has_sent_nothing_gives_way_to_one_that_saw_more_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    late = attempt()
    late.write(rows("a", *numbers(10)))
    cluster.topics["a"].append(type(cluster.topics["a"][0])())
    other = attempt()
    other.write(rows("a", *numbers(10)))
    other.finish()
    with pytest.raises(SourceError, match=r"spread the rows over \[1, 2\] partitions of a"):
        late.finish()
    assert sorted(value for each in cluster.topics["a"] for value in each.values()) == sorted(numbers(10))  # type: ignore[type-var]


def test_rows_that_two_attempts_have_spread_differently_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one gap that ids by number of partitions leave: both looked before either wrote, and the topic grew in
    between."""
    cluster = FakeCluster(monkeypatch, a=1)
    first = attempt()
    first.write(rows("a", BIG, BIG))  # It has looked, and sent.
    cluster.topics["a"].append(type(cluster.topics["a"][0])())
    monkeypatch.setattr(exactly_once, "counts_by_id", lambda identity, now: {identity.producer_id(2): 2})
    second = attempt()
    second.write(rows("a", BIG, BIG))
    monkeypatch.setattr(exactly_once, "counts_by_id", counts_by_id)
    with pytest.raises(SourceError, match="spread the rows over"):
        first.finish()


def test_an_attempt_told_of_fewer_partitions_waits_until_it_is_told_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=3)
    whole = attempt()
    whole.write(rows("a", *numbers(3000)))
    whole.finish()
    behind, told = cluster.topics["a"], []

    def described(name: str) -> Any:
        told.append(name)
        cluster.topics["a"] = behind[: min(len(told), 3)]
        try:
            return FakeCluster.described(cluster, name)
        finally:
            cluster.topics["a"] = behind

    monkeypatch.setattr(cluster, "described", described)
    again = attempt()
    again.write(rows("a", *numbers(3000)))
    again.finish()
    assert len(told) >= 3
    assert sum(len(each.values()) for each in behind) == 3000


def test_a_broker_that_was_restarted_between_two_tasks_is_connected_to_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    wires = WireCluster("h:1")
    first = OnceWriter(wires, IDENTITY, 0)
    first.write(rows("a", b"1"))
    first.finish()
    cluster.break_connections()
    second = OnceWriter(wires, IDENTITY._replace(batch=4), 0)
    second.write(rows("a", b"2"))
    second.finish()
    assert cluster.topics["a"][0].values() == [b"1", b"2"]


def test_a_topic_that_is_not_there_is_waited_for_a_little_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeCluster(monkeypatch)
    monkeypatch.setattr(exactly_once, "UNKNOWN_TOPIC_SECONDS", 0.0)
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
        attempt().write(rows("a", b"1"))


def half_done(monkeypatch: pytest.MonkeyPatch, *values: bytes) -> FakeCluster:
    """A batch whose rows an attempt wrote, all that it got, before it was killed."""
    cluster = FakeCluster(monkeypatch, a=1)
    half = attempt()
    half.write(rows("a", *values))
    half.finish()
    return cluster


def test_a_batch_whose_first_rows_retention_has_deleted_goes_on_behind_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They were committed, or they would not have been deleted: whoever wanted them could read them, and nobody gets
    them twice."""
    cluster = half_done(monkeypatch, *numbers(2))
    cluster.topics["a"][0].delete()
    again = attempt()
    again.write(rows("a", *numbers(5)))
    assert again.finish() == (("a", 0, 5),)
    assert cluster.topics["a"][0].values() == numbers(5)[2:]
    assert (
        "rows 0 to 1 of this batch for a-0 were written by an earlier attempt and deleted since (the log starts at 2)"
        in caplog.text
    )


def half_replicated(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeCluster, FakePartition]:
    """The same, and no follower has the rows yet; the log is older than they are, and retention has deleted what was
    before them."""
    cluster = FakeCluster(monkeypatch, a=1)
    partition = cluster.topics["a"][0]
    for batch in (2, 3):
        writer = OnceWriter(WireCluster("h:1"), IDENTITY._replace(batch=batch), 0)
        writer.write(rows("a", *numbers(2)))
        writer.finish()
        if batch == 2:
            partition.delete()
    partition.uncommitted = 2
    monkeypatch.setattr(exactly_once, "DELIVERY_SECONDS_MAX", 3.0)
    return cluster, partition


def test_rows_that_are_not_committed_are_not_taken_for_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    _, partition = half_replicated(monkeypatch)
    with pytest.raises(
        TimeoutError, match=r"records of a-0 up to sequence 1 of this batch are not committed.*min\.insync\.replicas"
    ):
        attempt().write(rows("a", *numbers(5)))
    assert partition.values() == numbers(2)


@pytest.mark.parametrize("looks", [1, 2])
def test_rows_that_a_new_leader_does_not_know_are_not_taken_for_deleted(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """It is elected after the attempt has heard of the rows, or while it finds out what has become of them. They
    were never committed."""
    cluster, partition = half_replicated(monkeypatch)
    told = []

    def producers(topic: str, index: int) -> Any:
        try:
            return FakeCluster.producers(cluster, topic, index)
        finally:
            told.append(index)
            if len(told) == looks:
                partition.leader, partition.log, partition.end, partition.uncommitted, partition.state = (
                    Leader(0, 1),
                    [],
                    partition.high,
                    0,
                    {},
                )

    monkeypatch.setattr(cluster, "producers", producers)
    with pytest.raises(TimeoutError, match="are not committed"):
        attempt().write(rows("a", *numbers(5)))
    again = attempt()
    again.write(rows("a", *numbers(5)))
    again.finish()
    assert partition.values() == numbers(5)


def test_a_log_start_that_overtakes_what_is_read_back_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = half_done(monkeypatch, *numbers(2))
    fetches = []

    def on_fetch(request: Any) -> Any:
        if not fetches:
            cluster.topics["a"][0].delete()
        fetches.append(request)
        return FakeCluster.on_fetch(cluster, request)

    monkeypatch.setattr(cluster, "on_fetch", on_fetch)
    again = attempt()
    again.write(rows("a", *numbers(3)))
    again.finish()
    assert cluster.topics["a"][0].values() == [b"2"]


def test_a_replay_finds_what_an_attempt_wrote_and_goes_on_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=2)
    half = attempt()
    half.write(rows("a", *numbers(700)))
    half.finish()
    again = attempt()
    again.write(rows("a", *numbers(1500)))
    again.finish()
    assert sorted(value for each in cluster.topics["a"] for value in each.values()) == sorted(numbers(1500))  # type: ignore[type-var]
    with pytest.raises(
        SourceError, match=r"row 3 for a-1 differs from what an earlier attempt wrote, which got as far as row 999\. "
    ):
        attempt().write(rows("a", *numbers(3), b"another"))


def test_seen_rows_know_what_differs_and_what_is_not_known_differs_from_nothing() -> None:
    seen = SeenRows(3)
    seen.note(1, (b"k", b"v", (("h", None),)))
    seen.note(3, (b"k", b"beyond", ()))
    assert not seen.differs(0, (None, b"anything", ()))
    assert not seen.differs(1, (b"k", b"v", (("h", None),)))
    assert seen.differs(1, (b"k", b"v", (("h", b""),)))
    assert seen.differs(1, (b"kv", b"", (("h", None),)))
    assert not seen.differs(3, (b"k", b"else", ()))


def test_keyless_rows_of_a_topic_go_where_they_went_however_topics_were_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, a=3, b=3)
    mixed = attempt()
    for number in range(1200):
        mixed.write(rows("a", b"%d" % number) + rows("b", b"%d" % number))
    mixed.finish()
    again = attempt()
    again.write(rows("a", *numbers(1200)) + rows("b", *numbers(1200)))
    again.finish()
    assert sum(len(each.values()) for each in cluster.topics["a"]) == 1200
    assert written_log.TAIL_OFFSETS > 1200


def test_rows_that_differ_are_written_behind_the_others_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster(monkeypatch, a=1)
    first = attempt()
    first.write(rows("a", *numbers(10)))
    first.finish()
    other = [*numbers(4), b"x", b"y"]
    with pytest.raises(SourceError, match=r"row 4 for a-0 differs.* set the sink option onDifference to atLeastOnce"):
        attempt().write(rows("a", *other))
    again = OnceWriter(WireCluster("h:1"), IDENTITY, 0, may_differ=True)
    again.write(rows("a", *other))
    again.finish()
    assert cluster.topics["a"][0].values() == [*numbers(10), b"x", b"y"]
    fewer = OnceWriter(WireCluster("h:1"), IDENTITY, 0, may_differ=True)
    fewer.write(rows("a", *numbers(3)))
    fewer.finish()
    assert cluster.topics["a"][0].end == 12


def test_a_topic_that_is_not_there_is_made_by_nodes_that_do_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch)
    cluster.makes_topics = True
    writer = attempt()
    writer.write(rows("a", *numbers(5)))
    writer.finish()
    assert cluster.topics["a"][0].values() == numbers(5)
