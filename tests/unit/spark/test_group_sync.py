"""Offsets at a mirror's target."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.common.ids import TopicPartition
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.running import JobFailed
from kraft.spark.source.leadership import Leader
from tests.unit.spark.many_nodes import ManyNodes, Node

module = pytest.importorskip("kraft.spark.jobs.group_sync")
confluent_kafka = pytest.importorskip("confluent_kafka")
T0 = TopicPartition("t", 0)


class Told:
    """An admin client that tells what a group has committed in t-0."""

    def __init__(self, offset: int, error: Any = None) -> None:
        self.offset = offset
        self.error = error

    def list_consumer_group_offsets(self, wanted: Any) -> dict[str, Future[Any]]:
        found, made = SimpleNamespace(topic="t", partition=0, offset=self.offset, error=self.error), Future[Any]()
        made.set_result(SimpleNamespace(topic_partitions=[found]))
        return {wanted[0].group_id: made}


def test_log_start_and_end_are_requested_from_the_partition_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    ManyNodes(monkeypatch, n1=Node(Leader(1, 4), low=3, high=9))
    assert module.list_offsets(Access("n1:1"), [T0], latest=True) == {T0: 9}
    assert module.list_offsets(Access("n1:1"), [T0], latest=False) == {T0: 3}


def test_an_invalid_end_offset_eventually_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = ManyNodes(monkeypatch, n1=Node(Leader(1, 4), high=-1))
    with pytest.raises(JobFailed, match="a broker returned the invalid offset -1"):
        module.list_offsets(Access("n1:1"), [T0], latest=True)
    assert nodes.now > 1028


def test_a_group_with_unreadable_offsets_is_not_a_group_without_commits() -> None:
    assert module.committed(Told(7), "g") == {T0: 7}
    assert module.committed(Told(-1001), "g") == {}
    problem = confluent_kafka.KafkaError(confluent_kafka.KafkaError.UNSTABLE_OFFSET_COMMIT)
    with pytest.raises(confluent_kafka.KafkaException):
        module.committed(Told(-1001, error=problem), "g")
