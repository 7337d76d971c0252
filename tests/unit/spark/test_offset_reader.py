"""What the driver asks of a cluster, with the answers told by the test."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.common.ids import TopicPartition
from kraft.spark.options import EARLIEST, batch_options, stream_options
from kraft.spark.pushdown import Bounds
from kraft.spark.ranges import OffsetRange

module = pytest.importorskip("kraft.spark.offset_reader")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def reader(**options: str) -> Any:
    return module.KafkaOffsetReader(stream_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **options}))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(
        module,
        "time",
        SimpleNamespace(monotonic=lambda: made.now, sleep=lambda seconds: setattr(made, "now", made.now + seconds)),
    )
    return made


def told(made: Any, *ends: int) -> list[Any]:
    """The ends of t-0, one a question; the last one stays. Answers the clients that were asked."""
    answers, clients = list(ends), []

    def list_offsets(_: object) -> dict[TopicPartition, int]:
        clients.append(made._admin)
        made._admin = object()
        return {T0: answers.pop(0) if len(answers) > 1 else answers[0]}

    made.partitions, made.list_offsets = lambda **_: frozenset([T0]), list_offsets
    return clients


def test_an_end_that_went_back_is_asked_of_new_clients_until_it_is_there(clock: SimpleNamespace) -> None:
    made = reader()
    clients = told(made, 900, 900, 900, 900, 1000)
    assert made.latest({T0: 1000}) == {T0: 1000}
    assert clients == [None] * 5


@pytest.mark.parametrize("attempts", ["0", "3"])
def test_an_end_that_stays_back_is_believed_after_some_seconds(clock: SimpleNamespace, attempts: str) -> None:
    made = reader(**{"fetchOffset.numRetries": attempts})
    told(made, 900)
    assert made.latest({T0: 1000}) == {T0: 900}
    assert 1010 <= clock.now < 1012


def test_an_end_that_did_not_go_back_is_asked_once(clock: SimpleNamespace) -> None:
    made = reader()
    clients = told(made, 1000)
    assert made.latest({T0: 1000}) == {T0: 1000}
    assert (len(clients), clock.now) == (1, 1000)


def knowing(made: Any, *looks: int) -> None:
    """Nodes that know so many partitions of t, one a question; the last one stays. All hold offsets [0, 7)."""
    answers = list(looks)

    def partitions(**_: bool) -> frozenset[TopicPartition]:
        return frozenset(
            TopicPartition("t", each) for each in range(answers.pop(0) if len(answers) > 1 else answers[0])
        )

    made.partitions, made.list_offsets = (
        partitions,
        lambda specs: {each: 0 if spec == EARLIEST else 7 for each, spec in specs.items()},
    )


def test_a_partition_that_the_node_asked_has_not_heard_of_yet_is_not_taken_for_deleted(clock: SimpleNamespace) -> None:
    """Else it is read again from its start once it is back, or ends the query."""
    made = reader(failOnDataLoss="false")
    knowing(made, 1, 1, 2)
    assert made.latest({T0: 3, T1: 3}) == {T0: 7, T1: 7}
    knowing(made, 1)
    assert made.latest({T0: 3, T1: 3}) == {T0: 7}
    assert clock.now >= 1010


def test_a_new_partition_that_the_node_asked_has_not_heard_of_yet_is_read_from_its_start(
    clock: SimpleNamespace,
) -> None:
    """Else the offsets up to the batch's end count as read."""
    made = reader(failOnDataLoss="false")
    knowing(made, 1, 1, 2)
    assert [each.start for each in made.resolved_ranges({T0: 3}, {T0: 7, T1: 7})] == [3, 0]


def test_the_first_offset_at_a_filters_time_is_asked_for_again_after_an_error(clock: SimpleNamespace) -> None:
    from kraft.spark.batch_reader import KafkaBatchReader

    options = batch_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"})
    made, batch, failures = (
        module.KafkaOffsetReader(options),
        KafkaBatchReader(options),
        [module.KafkaException("an election")],
    )
    batch.bounds = Bounds(timestamp_ms_low=5)

    def list_offsets(_: object) -> dict[TopicPartition, int]:
        if failures:
            raise failures.pop()
        return {T0: 4}

    made.list_offsets = list_offsets
    assert batch.narrowed([OffsetRange("t", 0, 0, 9)], made) == [OffsetRange("t", 0, 4, 9)]


class OneTopicGone:
    """An admin client of a cluster that has topic t, and u no more."""

    def __init__(self, code: int) -> None:
        self.code = code

    def describe_topics(self, _topics: object, *, request_timeout: float) -> dict[str, Any]:
        there, gone = Future[Any](), Future[Any]()
        there.set_result(SimpleNamespace(name="t", is_internal=False, partitions=[SimpleNamespace(id=0)]))
        gone.set_exception(module.KafkaException(module.KafkaError(self.code)))
        return {"t": there, "u": gone}


def with_one_topic_gone(monkeypatch: pytest.MonkeyPatch, code: int | None = None, **options: str) -> Any:
    made = reader(subscribe="t,u", **options)
    gone = module.KafkaError.UNKNOWN_TOPIC_OR_PART if code is None else code
    monkeypatch.setattr(module, "AdminClient", lambda _: OneTopicGone(gone))
    made.list_offsets = lambda specs: {each: 0 if spec == EARLIEST else 7 for each, spec in specs.items()}
    return made


def test_a_query_that_may_lose_data_goes_on_without_a_topic_that_is_deleted(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_one_topic_gone(monkeypatch, failOnDataLoss="false")
    begin = {T0: 3, TopicPartition("u", 0): 3}
    end = made.latest(begin)
    assert end == {T0: 7}
    assert clock.now >= 1010  # Not before other clients said so, too.
    assert made.resolved_ranges(begin, end) == [OffsetRange("t", 0, 3, 7)]
    assert made.earliest(begin) == {T0: 0}


def test_a_query_that_may_not_lose_data_ends_with_its_topic(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(module.KafkaException):
        with_one_topic_gone(monkeypatch).latest({T0: 3})


def test_a_query_does_not_begin_without_one_of_its_topics(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_one_topic_gone(monkeypatch, failOnDataLoss="false")
    with pytest.raises(module.KafkaException):
        made.resolve(made.options.starting, starting=True)


def test_a_topic_that_may_not_be_described_is_not_taken_for_deleted(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_one_topic_gone(monkeypatch, module.KafkaError.TOPIC_AUTHORIZATION_FAILED, failOnDataLoss="false")
    with pytest.raises(module.KafkaException):
        made.latest({T0: 3})


def test_a_group_is_not_told_nothing() -> None:
    reader().tell_group("g", {})  # The client would raise ValueError, or connect.
