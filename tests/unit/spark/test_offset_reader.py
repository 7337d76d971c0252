"""What the driver asks of a cluster, with the answers told by the test."""

from __future__ import annotations

import json
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Uuid

from kraft.common.ids import TopicPartition
from kraft.spark.errors import DataLoss, LookUpFailed, NotYetKnown, OffsetNotKnown, PlanIncomplete, SourceError
from kraft.spark.source.look_ups import SeenTopic
from kraft.spark.source.options import EARLIEST, LATEST, batch_options, stream_options
from kraft.spark.source.pushdown import Bounds
from kraft.spark.source.ranges import OffsetRange

module = pytest.importorskip("kraft.spark.source.offset_reader")
admin = pytest.importorskip("kraft.spark.source.admin_look_ups")
NO_ID = Uuid(0, 0)
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


def told(made: Any, *ends: int) -> list[int]:
    """The ends of t-0, one a question; the last one stays. Answers how often the client was renewed before each."""
    answers, renewals, looks = list(ends), [0], []
    made._client = SimpleNamespace(renew=lambda: renewals.append(renewals[-1] + 1))

    def list_offsets(_: object) -> dict[TopicPartition, int]:
        looks.append(renewals[-1])
        return {T0: answers.pop(0) if len(answers) > 1 else answers[0]}

    made.partitions, made.list_offsets = lambda **_: frozenset([T0]), list_offsets
    return looks


def test_an_end_offset_that_moved_back_is_requested_from_other_brokers_until_it_returns(clock: SimpleNamespace) -> None:
    made = reader()
    looks = told(made, 900, 900, 900, 900, 1000)
    assert made.latest({T0: 1000}) == {T0: 1000}
    assert looks == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("attempts", ["0", "3"])
def test_an_end_offset_that_stays_lower_is_trusted_after_some_seconds(clock: SimpleNamespace, attempts: str) -> None:
    made = reader(**{"fetchOffset.numRetries": attempts})
    told(made, 900)
    assert made.latest({T0: 1000}) == {T0: 900}
    assert 1010 <= clock.now < 1012


def identified(made: Any, *ids: bytes) -> list[bytes]:
    """The ids that t is told of, one a question; the last one stays. Answers what is left of them."""
    left = list(ids)
    made._client = SimpleNamespace(
        renew=lambda: None,
        describe=lambda topics, skip_missing: [SeenTopic("t", (0,), topic_id=left.pop(0) if left[1:] else left[0])],
    )
    return left


ONE, TWO = b"1" * 16, b"2" * 16


def test_the_topic_ids_of_librdkafka_equal_those_of_the_protocol() -> None:
    assert admin.bytes_of(Uuid(-1, 2)) == b"\xff" * 8 + bytes(7) + b"\x02"
    assert admin.bytes_of(NO_ID) is None


def test_a_recreated_topic_is_reported_once_and_then_read(clock: SimpleNamespace) -> None:
    made = reader(failOnDataLoss="false")
    identified(made, ONE)
    assert made.partitions() == {T0}
    assert made.adopt_recreated_topics() == frozenset()
    identified(made, TWO)
    assert made.partitions() == {T0}
    assert made.topic_ids == {"t": ONE}, "it is not taken before it is told"
    assert made.adopt_recreated_topics() == {"t"}
    assert made.adopt_recreated_topics() == frozenset()
    assert made.topic_ids == {"t": TWO}
    identified(made, ONE)  # A node that has not heard of it yet.
    made.partitions()
    assert made.adopt_recreated_topics() == frozenset()
    assert made.topic_ids == {"t": TWO}


def test_a_recreated_topic_is_data_loss(clock: SimpleNamespace) -> None:
    made = reader()
    identified(made, ONE)
    made.partitions()
    made.adopt_recreated_topics()
    identified(made, TWO)
    made.partitions()
    with pytest.raises(DataLoss, match="Topic t was deleted and recreated while the query ran"):
        made.adopt_recreated_topics()


def test_a_different_topic_id_reported_by_only_one_broker_is_not_trusted(clock: SimpleNamespace) -> None:
    """One that lags tells of the topic that was there before the query began."""
    made = reader()
    identified(made, TWO)
    made.partitions()
    made.adopt_recreated_topics()
    identified(made, ONE, TWO)
    made.partitions()
    assert made.adopt_recreated_topics() == frozenset()
    assert made.topic_ids == {"t": TWO}


def test_each_range_contains_the_topic_id_of_its_plan() -> None:
    made = reader()
    identified(made, ONE)
    made.partitions()
    made.adopt_recreated_topics()
    [planned] = made.resolved_ranges({T0: 3}, {T0: 7})
    assert planned == OffsetRange("t", 0, 3, 7, ONE)


def test_an_end_offset_that_did_not_move_back_is_requested_once(clock: SimpleNamespace) -> None:
    made = reader()
    looks = told(made, 1000)
    assert made.latest({T0: 1000}) == {T0: 1000}
    assert (looks, clock.now) == ([0], 1000)


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


def test_a_partition_unknown_to_the_asked_node_is_not_treated_as_deleted(clock: SimpleNamespace) -> None:
    """Else it is read again from its start once it is back, or ends the query."""
    made = reader(failOnDataLoss="false")
    knowing(made, 1, 1, 2)
    assert made.latest({T0: 3, T1: 3}) == {T0: 7, T1: 7}
    knowing(made, 1)
    assert made.latest({T0: 3, T1: 3}) == {T0: 7}
    assert clock.now >= 1010


def test_a_new_partition_unknown_to_the_asked_node_is_read_from_its_start(
    clock: SimpleNamespace,
) -> None:
    """Else the offsets up to the batch's end count as read."""
    made = reader(failOnDataLoss="false")
    knowing(made, 1, 1, 2)
    assert [each.start for each in made.resolved_ranges({T0: 3}, {T0: 7, T1: 7})] == [3, 0]


def test_the_offset_lookup_for_a_timestamp_filter_is_retried_after_an_error(clock: SimpleNamespace) -> None:
    from kraft.spark.source.batch_reader import KafkaBatchReader

    options = batch_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"})
    made, batch, failures = (
        module.KafkaOffsetReader(options),
        KafkaBatchReader(options),
        [LookUpFailed("an election", None)],
    )
    batch.bounds = Bounds(timestamp_ms_low=5)

    def list_offsets(_: object) -> dict[TopicPartition, int]:
        if failures:
            raise failures.pop()
        return {T0: 4}

    made.list_offsets = list_offsets
    assert batch.narrowed([OffsetRange("t", 0, 0, 9)], made) == [OffsetRange("t", 0, 4, 9)]


def asking_librdkafka(monkeypatch: pytest.MonkeyPatch, client: Any) -> None:
    """Look-ups by librdkafka's admin client, whose answers are the test's."""
    monkeypatch.setattr(admin, "AdminClient", lambda _: client)
    monkeypatch.setattr(module, "look_ups", lambda _: admin.AdminLookUps({}))
    monkeypatch.setattr(module.KafkaOffsetReader, "require_rights", lambda _: None)


class OneTopicGone:
    """An admin client of a cluster that has topic t, and u no more."""

    def __init__(self, code: int) -> None:
        self.code = code

    def describe_topics(self, _topics: object, *, request_timeout: float) -> dict[str, Any]:
        there, gone = Future[Any](), Future[Any]()
        there.set_result(
            SimpleNamespace(name="t", topic_id=NO_ID, is_internal=False, partitions=[SimpleNamespace(id=0)])
        )
        gone.set_exception(admin.KafkaException(admin.KafkaError(self.code)))
        return {"t": there, "u": gone}


def with_one_topic_gone(monkeypatch: pytest.MonkeyPatch, code: int | None = None, **options: str) -> Any:
    made = reader(subscribe="t,u", **options)
    gone = admin.KafkaError.UNKNOWN_TOPIC_OR_PART if code is None else code
    asking_librdkafka(monkeypatch, OneTopicGone(gone))
    made.list_offsets = lambda specs: {each: 0 if spec == EARLIEST else 7 for each, spec in specs.items()}
    return made


def test_with_fail_on_data_loss_false_a_query_continues_without_a_deleted_topic(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_one_topic_gone(monkeypatch, failOnDataLoss="false")
    begin = {T0: 3, TopicPartition("u", 0): 3}
    end = made.latest(begin)
    assert end == {T0: 7}
    assert clock.now >= 1010  # Not before other clients said so, too.
    assert made.resolved_ranges(begin, end) == [OffsetRange("t", 0, 3, 7)]
    assert made.earliest(begin) == {T0: 0}


def test_with_fail_on_data_loss_true_a_query_fails_when_its_topic_is_deleted(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotYetKnown):
        with_one_topic_gone(monkeypatch).latest({T0: 3})


def test_a_query_does_not_start_when_one_of_its_topics_is_missing(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_one_topic_gone(monkeypatch, failOnDataLoss="false")
    with pytest.raises(NotYetKnown):
        made.resolve(made.options.starting, starting=True)


def test_a_topic_without_describe_permission_is_not_treated_as_deleted(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_one_topic_gone(monkeypatch, admin.KafkaError.TOPIC_AUTHORIZATION_FAILED, failOnDataLoss="false")
    with pytest.raises(NotYetKnown):
        made.latest({T0: 3})


def test_empty_offsets_are_not_committed_to_the_group() -> None:
    reader().commit_to_group("g", {})  # The client would raise ValueError, or connect.


class LostConnections:
    """An admin client of topic t with `partitions`, which answers -1001 for those in `lost`, once each; the others
    hold offsets [0, 7)."""

    def __init__(self, partitions: int, lost: list[tuple[int, int]]) -> None:
        self.partitions, self.lost = partitions, lost

    def describe_topics(self, _topics: object, *, request_timeout: float) -> dict[str, Any]:
        answer = Future[Any]()
        found = [SimpleNamespace(id=each) for each in range(self.partitions)]
        answer.set_result(SimpleNamespace(name="t", topic_id=NO_ID, is_internal=False, partitions=found))
        return {"t": answer}

    def list_offsets(self, wanted: Any, **_: object) -> dict[Any, Any]:
        found = {}
        for place, spec in wanted.items():
            key = (place.partition, spec._value)
            if is_lost := key in self.lost:
                self.lost.remove(key)
            found[place] = Future[Any]()
            told = -1001 if is_lost else 0 if spec._value == EARLIEST else 7
            found[place].set_result(SimpleNamespace(offset=told))
        return found


def with_lost_connections(monkeypatch: pytest.MonkeyPatch, lost: list[tuple[int, int]], **options: str) -> Any:
    from kraft.spark.source.batch_reader import KafkaBatchReader

    broker = LostConnections(3, lost)
    asking_librdkafka(monkeypatch, broker)
    chosen = {"subscribe": "t", **options} if "assign" not in options else options
    return KafkaBatchReader(batch_options({"kafka.bootstrap.servers": "h:1", **chosen}))


WHOLE = [OffsetRange("t", each, 0, 7) for each in range(3)]


def planned(batch: Any) -> list[OffsetRange]:
    return [each for part in batch.partitions() for each in part.value]


def test_a_plan_includes_a_partition_whose_offset_lookup_lost_its_connection(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka answers -1001 for its start and its end: an empty range, as it seems."""
    assert planned(with_lost_connections(monkeypatch, [(1, EARLIEST), (1, LATEST)])) == WHOLE
    assert clock.now == 1002  # Once again for each side.


@pytest.mark.parametrize("spec", [EARLIEST, LATEST])
def test_a_read_with_unknown_offsets_fails(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, spec: int) -> None:
    with pytest.raises(OffsetNotKnown, match=r"of partition t-1 is not known: the answer is -1001"):
        planned(with_lost_connections(monkeypatch, [(1, spec)] * 9))


def test_a_timestamp_beyond_all_records_is_not_treated_as_a_lost_connection() -> None:
    assert module.checked_offsets({T0: 5}, {T0: -1}) == {T0: -1}
    with pytest.raises(OffsetNotKnown, match="first offset at time 5 of partition t-0 is not known"):
        module.checked_offsets({T0: 5}, {T0: -1001})
    with pytest.raises(OffsetNotKnown, match="no broker answered"):
        module.checked_offsets({T0: LATEST}, {})


def test_a_missing_assigned_partition_fails_the_read_unless_data_loss_is_allowed(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assign = {"assign": '{"t":[0,3]}'}
    with pytest.raises(PlanIncomplete, match="would leave out partitions t-3"):
        planned(with_lost_connections(monkeypatch, [], **assign))
    assert planned(with_lost_connections(monkeypatch, [], failOnDataLoss="false", **assign)) == WHOLE[:1]
    assert "would leave out partitions t-3" in caplog.text


@pytest.mark.parametrize("told", [(), (0, 2)])
def test_a_topic_with_incomplete_partition_metadata_is_not_planned(told: tuple[int, ...]) -> None:
    with pytest.raises(PlanIncomplete, match="would leave out partitions of topic t"):
        module.whole_topic(SeenTopic("t", told))


def test_a_topic_missing_from_a_metadata_response_is_not_left_out_of_the_plan() -> None:
    made = reader(subscribe="t,u")
    made._client = SimpleNamespace(describe=lambda topics, skip_missing: [SeenTopic("t", (0,))])
    with pytest.raises(PlanIncomplete, match="would leave out topics u"):
        made.partitions()
    assert made.partitions(skip_missing=True) == {T0}


def test_a_stream_does_not_start_at_an_offset_of_a_lost_connection(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kraft.spark.source.stream_reader import KafkaStreamReader

    with_lost_connections(monkeypatch, [(2, LATEST)])
    made = KafkaStreamReader(stream_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"}))
    assert made.initialOffset() == {"t": {"0": 7, "1": 7, "2": 7}}


@pytest.mark.parametrize(
    ("options", "own"),
    [
        ({}, True),
        ({"fetcher": "librdkafka"}, True),
        ({"kafka.client.rack": "a"}, True),
        ({"kafka.broker.address.family": "v6"}, False),
        ({"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "OAUTHBEARER"}, False),
    ],
)
def test_the_built_in_client_does_lookups_unless_only_librdkafka_can_connect(
    options: dict[str, str], own: bool
) -> None:
    made = module.look_ups(reader(**options).options)
    assert type(made).__name__ == ("WireLookUps" if own else "AdminLookUps")


def test_lookups_use_the_timeouts_of_the_options() -> None:
    made = module.look_ups(
        reader(**{"kafka.default.api.timeout.ms": "7000", "kafka.request.timeout.ms": "3000"}).options
    )
    assert (made.timeout_s, made.cluster.timeout_s) == (7, 3)
    with pytest.raises(ValueError, match=r"kafka\.default\.api\.timeout\.ms must be positive"):
        reader(**{"kafka.default.api.timeout.ms": "0"})


@pytest.mark.parametrize("partitions", [(0, 1), (0, 1, 2, 3)])
@pytest.mark.parametrize(
    ("option", "condition"),
    [
        ("startingOffsets", "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"),
        ("startingOffsetsByTimestamp", "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"),
    ],
)
def test_offset_limits_that_name_unknown_partitions_are_refused(
    option: str, condition: str, partitions: tuple[int, ...]
) -> None:
    named = json.dumps({"t": {str(each): 5 for each in partitions}})
    made = reader(**{option: named})
    there = frozenset(TopicPartition("t", each) for each in range(3))
    with pytest.raises(SourceError, match=f"{condition}.*Assigned: t-0, t-1, t-2"):
        made.resolve_once(made.options.starting, there, starting=True)
