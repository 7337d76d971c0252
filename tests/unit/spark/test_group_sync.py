"""Offsets at a mirror's target, as librdkafka's admin client tells them."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.common.ids import TopicPartition
from kraft.spark.jobs.running import JobFailed

module = pytest.importorskip("kraft.spark.jobs.group_sync")
confluent_kafka = pytest.importorskip("confluent_kafka")
T0 = TopicPartition("t", 0)


def done(result: Any) -> Future[Any]:
    made = Future[Any]()
    made.set_result(result)
    return made


class Told:
    """An admin client that tells `offsets`, one a question; the last one stays."""

    def __init__(self, *offsets: int, error: Any = None) -> None:
        self.offsets = list(offsets)
        self.error = error

    def list_topics(self, *, timeout: float) -> None: ...

    def list_offsets(self, wanted: Any, **_: object) -> dict[Any, Future[Any]]:
        told = self.offsets.pop(0) if len(self.offsets) > 1 else self.offsets[0]
        return {each: done(SimpleNamespace(offset=told)) for each in wanted}

    def list_consumer_group_offsets(self, wanted: Any) -> dict[str, Future[Any]]:
        found = SimpleNamespace(topic="t", partition=0, offset=self.offsets[0], error=self.error)
        return {wanted[0].group_id: done(SimpleNamespace(topic_partitions=[found]))}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(
        module,
        "time",
        SimpleNamespace(monotonic=lambda: made.now, sleep=lambda seconds: setattr(made, "now", made.now + seconds)),
    )
    return made


@pytest.mark.parametrize("latest", [True, False])
def test_a_number_that_is_no_offset_is_asked_for_again(latest: bool, clock: SimpleNamespace) -> None:
    assert module.list_offsets(Told(-1001, -1001, 9), [T0], latest=latest) == {T0: 9}
    with pytest.raises(JobFailed, match="-1001 is told of t-0, which is no offset"):
        module.list_offsets(Told(-1001), [T0], latest=latest)
    assert clock.now > 1030


def test_a_group_whose_offset_could_not_be_read_is_not_one_that_has_committed_nothing() -> None:
    assert module.committed(Told(7), "g") == {T0: 7}
    assert module.committed(Told(-1001), "g") == {}
    problem = confluent_kafka.KafkaError(confluent_kafka.KafkaError.UNSTABLE_OFFSET_COMMIT)
    with pytest.raises(confluent_kafka.KafkaException):
        module.committed(Told(-1001, error=problem), "g")
