"""Three processes are killed, and the leader's disk has lost what was not synced: the followers that kept it lead."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.three_nodes import ThreeNodes, until
from kraft.testing.foreign.librdkafka import Consumer, Producer
from kraft.testing.watermarks import watermarks

RECORDS = 1_000
NOBODY = -1
ORDERS = [
    ("follower", "leader", "other follower"),
    ("leader", "follower", "other follower"),
    ("follower", "other follower", "leader"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    with ThreeNodes(tmp_path_factory.mktemp("lost-logs")) as cluster:
        yield cluster


def produce(cluster: ThreeNodes, topic: str) -> None:
    failures: list[object] = []
    producer = Producer(cluster.servers(acks="all", linger_ms=5))
    for number in range(RECORDS):
        producer.produce(topic, str(number), on_delivery=lambda error, message: failures.append(error))
    assert producer.flush(30) == 0
    assert failures == [None] * RECORDS


def lose_the_log(cluster: ThreeNodes, node: int, topic: str) -> None:
    """What a power loss does to a log that was never synced."""
    for directory in cluster.nodes[node].data_directories.split(","):
        for log in (Path(directory) / f"{topic}-0").glob("*.log"):
            log.write_bytes(b"")


def start_one_after_another(cluster: ThreeNodes, nodes: tuple[int, ...], seconds: float) -> None:
    """Each is started `seconds` after the one before, whether that serves yet or not."""
    starting = []
    for node in nodes:
        starting.append(threading.Thread(target=cluster.nodes[node].start))
        starting[-1].start()
        time.sleep(seconds)
    for thread in starting:
        thread.join()


def has_moved(cluster: ThreeNodes, topic: str, former: int) -> bool:
    """Whether every node has heard that another replica leads. Until a node has heard that the former leader was
    registered anew, it tells of that one."""
    return all(cluster.told_by(node, topic)[0].leader_id not in (former, NOBODY) for node in cluster.nodes)


@pytest.mark.parametrize("min_isr", ["1", "2"])
@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_records_kept_by_followers_survive_a_leader_that_lost_its_log(
    cluster: ThreeNodes, order: tuple[str, ...], min_isr: str
) -> None:
    topic = cluster.create(f"lost-{min_isr}-{'-'.join(order).replace(' ', '_')}", min_insync_replicas=min_isr)
    cluster.until_in_sync(topic)
    produce(cluster, topic)
    leader = cluster.leader(topic)
    others = [node for node in cluster.nodes if node != leader]
    roles = {"leader": leader, "follower": others[0], "other follower": others[1]}
    cluster.kill()
    lose_the_log(cluster, leader, topic)
    start_one_after_another(cluster, tuple(roles[role] for role in order), 0.5)
    until(lambda: has_moved(cluster, topic, leader), f"node {leader}, which lost its log, leads {topic}")
    until(lambda: len(cluster.partitions(topic)[0].isrs) == 3, f"{topic} is not in sync")
    for node in cluster.nodes:
        (log,) = (Path(cluster.nodes[node].data_directories.split(",")[0]) / f"{topic}-0").glob("*.log")
        assert log.stat().st_size > RECORDS, f"node {node} gave up what was acknowledged"
    consumer = Consumer(cluster.servers(group_id="nobody"))
    assert watermarks(consumer, topic, 0, 30.0) == (0, RECORDS)
    consumer.close()
