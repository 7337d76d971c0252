"""Leaders that are behind, logs that are shorter, topics that are gone, connections that break: what is loss and
what is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraft.spark.errors import DataLoss
from kraft.spark.source.leadership import Leader
from tests.unit.spark.many_nodes import BATCH, FakeConnection, ManyNodes, Node

direct_fetcher = pytest.importorskip("kraft.spark.source.direct_fetcher")
OLD, NEW = Leader(1, 4), Leader(2, 5)


def fetcher(
    start: int, end: int, *, fail_on_data_loss: bool = True, attempts_max: int = 3, topic_id: bytes | None = None
) -> Any:
    from kraft.spark.source.ranges import OffsetRange

    options = {
        "include_headers": False,
        "fail_on_data_loss": fail_on_data_loss,
        "poll_timeout_ms": 120_000,
        "attempts_max": attempts_max,
        "retry_ms": 1000,
    }
    return direct_fetcher.DirectFetcher(OffsetRange("t", 0, start, end, topic_id), "n1:1,n2:1,n3:1", **options)


def read(made: Any, nodes: ManyNodes) -> int:
    """How many rows came."""
    rows: Iterator[Any] = made.fetches(nodes.cluster())
    return sum(batch.num_rows for batch in rows)


ONE, TWO = b"1" * 16, b"2" * 16


def test_a_topic_recreated_since_the_plan_is_data_loss_and_its_records_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(NEW, topic_id=TWO), n2=Node(NEW, topic_id=TWO), n3=Node(NEW, topic_id=TWO))
    assert read(fetcher(850, 1000, topic_id=TWO), nodes) == 150
    assert read(fetcher(850, 1000, topic_id=ONE, fail_on_data_loss=False), nodes) == 0
    with pytest.raises(DataLoss, match=r"\[850, 1000\) .* UNKNOWN_TOPIC_ID: the topic was deleted since"):
        read(fetcher(850, 1000, topic_id=ONE), nodes)


def test_a_leader_without_metadata_of_a_recreated_topic_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Node(NEW, topic_id=ONE)
    nodes = ManyNodes(monkeypatch, n1=Node(NEW, topic_id=TWO), n2=late, n3=Node(NEW, topic_id=TWO))
    made = fetcher(850, 1000, topic_id=TWO)
    rows = made.fetches(nodes.cluster())
    monkeypatch.setattr(made, "look_whether_gone", lambda *_: setattr(late, "topic_id", TWO))
    assert sum(batch.num_rows for batch in rows) == 150


def test_a_deposed_leader_that_lags_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, high=900), n2=Node(NEW), n3=Node(NEW))
    assert read(fetcher(850, 1000), nodes) == 150
    assert "ListOffsetsRequest" not in nodes.nodes[1].asked, "the leader is looked for anew first"
    assert read(fetcher(900, 1000, attempts_max=0), nodes) == 100


def test_a_connection_whose_login_expires_is_replaced_within_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD), n2=Node(OLD), n3=Node(OLD))
    made = fetcher(0, 1000)
    rows = made.fetches(nodes.cluster())
    count = next(rows).num_rows
    for connection in nodes.opened:
        connection.is_over = True
    opened = len(nodes.opened)
    assert count + sum(batch.num_rows for batch in rows) == 1000
    assert len(nodes.opened) == opened + 1
    assert nodes.opened[-1].node.number == 1


@pytest.mark.parametrize("start", [900, 950])
def test_a_read_waits_while_only_a_deposed_leader_can_be_reached(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, high=900), n2=Node(NEW, reachable=False), n3=Node(NEW, reachable=False))
    with pytest.raises(TimeoutError, match="1 of 3 nodes say that node 1 leads it in epoch 4"):
        read(fetcher(start, 1000, fail_on_data_loss=False), nodes)
    assert nodes.now - 1000.0 >= 120


@pytest.mark.parametrize("start", [900, 950])
@pytest.mark.parametrize(("alive", "seconds"), [((1, 2, 3), 10), ((1, 3), 30)])
def test_a_shorter_log_at_the_leader_of_the_majority_is_data_loss(
    monkeypatch: pytest.MonkeyPatch, start: int, alive: tuple[int, ...], seconds: int
) -> None:
    nodes = ManyNodes(
        monkeypatch, **{f"n{number}": Node(OLD, high=900, reachable=number in alive) for number in (1, 2, 3)}
    )
    with pytest.raises(DataLoss, match=rf"\[{start}, 1000\) for topic partition t-0: the log now ends at 900"):
        read(fetcher(start, 1000), nodes)
    assert nodes.now - 1000.0 < seconds


def test_zero_configured_attempts_do_not_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, high=900))
    with pytest.raises(DataLoss):
        read(fetcher(900, 1000, attempts_max=0), nodes)


def test_an_end_offset_that_arrives_late_is_no_data_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, high=900), n2=Node(OLD), n3=Node(OLD))
    sleep = nodes.sleep

    def sleep_and_grow(seconds: float) -> None:
        sleep(seconds)
        nodes.nodes[1].partition.end = 900 if nodes.now < 1003 else 1000

    monkeypatch.setattr("kraft.spark.source.direct_fetcher.time.sleep", sleep_and_grow)
    assert read(fetcher(900, 1000), nodes) == 100


def test_a_read_skips_to_the_log_start_of_the_majoritys_leader_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, low=400), n2=Node(OLD), n3=Node(OLD, reachable=False))
    assert read(fetcher(300, 1000, fail_on_data_loss=False), nodes) == 600
    assert nodes.now == 1000.0


def test_records_deleted_only_by_a_deposed_leader_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD, low=400), n2=Node(NEW), n3=Node(NEW))
    assert read(fetcher(300, 1000), nodes) == 700


def test_a_topic_is_deleted_when_a_majority_of_nodes_does_not_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(None), n2=Node(None), n3=Node(None))
    with pytest.raises(DataLoss, match="does not exist any more"):
        read(fetcher(0, 1000), nodes)
    assert nodes.now - 1000.0 < 10


def test_a_topic_unknown_to_one_node_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(None), n2=Node(NEW), n3=Node(NEW))
    assert read(fetcher(0, 1000), nodes) == 1000
    nodes.nodes[2].reachable = nodes.nodes[3].reachable = False
    with pytest.raises(TimeoutError, match="1 of 3 nodes say that the partition is unknown"):
        read(fetcher(0, 1000, fail_on_data_loss=False), nodes)


def test_a_topic_that_reappears_was_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD))
    made, cluster = fetcher(0, 1000), nodes.cluster()
    unknown = direct_fetcher.WireError(3, "t")
    cluster.partitions("t")
    made.failed(cluster, None, unknown)
    assert not made.gone.is_settling, "the node knows it"
    nodes.nodes[1].leader = None
    made.failed(cluster, None, unknown)
    assert made.gone.is_settling
    made.failed(cluster, None, direct_fetcher.WireError(6, "another answer"))
    assert not made.gone.is_settling


def test_a_connection_that_breaks_during_a_pipelined_fetch_is_reopened(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD))
    made, cluster = fetcher(0, 1000), nodes.cluster()
    cluster.leader("t", 0)
    for opened in list[FakeConnection](nodes.opened):
        opened.sends_left = 3
    assert sum(batch.num_rows for batch in made.fetches(cluster)) == 1000
    assert len(nodes.opened) == 2
    assert nodes.nodes[1].asked.count("FetchRequest") == 1000 // BATCH


def test_a_leader_reelected_on_the_same_node_is_asked_with_its_new_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD))
    made, cluster = fetcher(0, 1000), nodes.cluster()
    batches = made.fetches(cluster)
    assert next(batches).num_rows == BATCH
    nodes.nodes[1].leader = Leader(1, 5)
    assert sum(batch.num_rows for batch in batches) == 1000 - BATCH


def test_a_fetch_sends_the_newest_known_epoch_so_that_a_deposed_leader_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(OLD))
    made, cluster = fetcher(0, 1000), nodes.cluster()
    assert made.request(cluster).topics[0].partitions[0].current_leader_epoch == -1
    cluster.partitions("t")
    assert made.request(cluster).topics[0].partitions[0].current_leader_epoch == OLD.epoch
