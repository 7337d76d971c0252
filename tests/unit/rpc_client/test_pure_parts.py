"""The parts of the client that know neither network nor time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from kraft.admin.assignments import read_assignment
from kraft.admin.errors import check
from kraft.admin.metadata import read_metadata
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_response import AbortedTransaction
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.protocol.records.builder import Record, build_batch
from kraft.protocol.records.control_record import ControlRecordType, control_key
from kraft.protocol.records.record_batch import CorruptBatch
from kraft.rpc_client.backoff import Backoff
from kraft.rpc_client.fetched import visible_batches
from kraft.rpc_client.group_membership import Subscriber, assign_range
from kraft.rpc_client.partitioner import STICKY_BYTES, DefaultPartitioner, murmur2, partition_for_key


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_keys_are_partitioned_as_by_other_clients(key: bytes, partitions: int) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key)
    assert partition_for_key(key, partitions) == (murmur2_of_kafka_python(key) & 0x7FFFFFFF) % partitions


def test_records_without_a_key_stick_to_a_partition_for_a_while() -> None:
    partitioner = DefaultPartitioner(random.Random(1))
    chosen = [partitioner.choose("t", None, 1024, 50) for _ in range(3 * STICKY_BYTES // 1024)]
    runs = [chosen[first : first + STICKY_BYTES // 1024] for first in range(0, len(chosen), STICKY_BYTES // 1024)]
    assert all(len(set(run)) == 1 for run in runs)
    assert len({run[0] for run in runs}) == 3
    assert partitioner.choose("t", None, 1, 1) == 0, "a partition that is gone is not chosen"


def test_backoff_doubles_up_to_a_second_with_jitter() -> None:
    backoff = Backoff(random.Random(1))
    waits = [backoff.next() for _ in range(8)]
    for wait, middle in zip(waits, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0), strict=True):
        assert 0.8 * middle <= wait <= 1.2 * middle
    assert len(set(waits)) == len(waits)


@pytest.mark.parametrize(
    ("members", "counts", "expected"),
    [
        ({"a": ["t"], "b": ["t"]}, {"t": 3}, {"a": ["t-0", "t-1"], "b": ["t-2"]}),
        ({"b": ["t"], "a": ["t"], "c": ["t"]}, {"t": 2}, {"a": ["t-0"], "b": ["t-1"], "c": []}),
        ({"a": ["t", "u"], "b": ["u"]}, {"t": 2, "u": 2}, {"a": ["t-0", "t-1", "u-0"], "b": ["u-1"]}),
        ({"a": ["gone"]}, {}, {"a": []}),
    ],
)
def test_the_range_assignor_gives_adjacent_partitions_and_the_remainder_to_the_first_members(
    members: dict[str, list[str]], counts: dict[str, int], expected: dict[str, list[str]]
) -> None:
    assigned = assign_range([Subscriber(name, None, tuple(topics)) for name, topics in members.items()], counts)
    assert {name: [str(partition) for partition in partitions] for name, partitions in assigned.items()} == expected


def test_static_members_are_sorted_first_by_instance_id() -> None:
    subscribers = [Subscriber("a", None, ("t",)), Subscriber("z", "one", ("t",)), Subscriber("y", "two", ("t",))]
    assert assign_range(subscribers, {"t": 3}) == {
        "z": [TopicPartition("t", 0)],
        "y": [TopicPartition("t", 1)],
        "a": [TopicPartition("t", 2)],
    }


@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        st.sets(st.sampled_from(["t", "u", "v"]), min_size=1),
        min_size=1,
        max_size=6,
    )
)
def test_every_partition_is_assigned_to_exactly_one_subscriber_of_its_topic(members: dict[str, set[str]]) -> None:
    counts = {"t": 5, "u": 1, "v": 0}
    assigned = assign_range([Subscriber(name, None, tuple(topics)) for name, topics in members.items()], counts)
    everything = sorted(partition for partitions in assigned.values() for partition in partitions)
    wanted = {topic for topics in members.values() for topic in topics}
    assert everything == sorted(TopicPartition(topic, index) for topic in wanted for index in range(counts[topic]))
    assert all(partition.topic in members[name] for name, partitions in assigned.items() for partition in partitions)


def data(offset: int, producer_id: int, *, transactional: bool = True) -> bytes:
    return build_batch(
        [Record(offset, 0, None, b"%d" % offset)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=transactional,
    )


def marker(offset: int, producer_id: int, kind: int) -> bytes:
    record = Record(offset, 0, control_key(kind), b"\0\0\0\0\0\0")
    return build_batch([record], producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True)


def test_markers_and_records_of_aborted_transactions_are_hidden() -> None:
    log = b"".join(
        [
            data(0, 1),
            data(1, 2),
            data(2, 3, transactional=False),
            marker(3, 1, ControlRecordType.ABORT),
            marker(4, 2, ControlRecordType.COMMIT),
            data(5, 1),
            marker(6, 1, ControlRecordType.COMMIT),
            data(7, 2),
            marker(8, 2, ControlRecordType.ABORT),
        ]
    )
    aborted = [AbortedTransaction(producer_id=2, first_offset=7), AbortedTransaction(producer_id=1, first_offset=0)]
    assert [batch.base_offset for batch, visible in visible_batches(log, aborted) if visible] == [1, 2, 5]
    assert [batch.base_offset for batch, visible in visible_batches(log, None) if visible] == [0, 1, 2, 5, 7]


def test_a_damaged_batch_is_refused_and_a_truncated_one_ignored() -> None:
    whole = data(0, 1)
    assert [batch.base_offset for batch, _ in visible_batches(whole + data(1, 1)[:-1], None)] == [0]
    damaged = bytearray(whole)
    damaged[-2] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        list(visible_batches(bytes(damaged), None))


def test_metadata_responses_give_leaders_and_errors() -> None:
    response = MetadataResponse(cluster_id="c", controller_id=2)
    response.brokers = [
        MetadataResponseBroker(node_id=2, host="b", port=2),
        MetadataResponseBroker(node_id=1, host="a", port=1),
    ]
    partitions = [
        MetadataResponsePartition(partition_index=1, leader_id=-1, replica_nodes=[1, 2], isr_nodes=[]),
        MetadataResponsePartition(partition_index=0, leader_id=2, replica_nodes=[1, 2], isr_nodes=[2]),
    ]
    response.topics = [
        MetadataResponseTopic(name="t", partitions=partitions),
        MetadataResponseTopic(name="u", error_code=ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    found = read_metadata(response)
    assert list(found.brokers) == [1, 2]
    topic = found.topic("t")
    assert topic.leader(0) == 2
    for index, code in (
        (1, ErrorCode.LEADER_NOT_AVAILABLE),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(ApiError) as refusal:
            topic.leader(index)
        assert refusal.value.code == code
    for name, code in (("u", ErrorCode.INVALID_TOPIC_EXCEPTION), ("v", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        with pytest.raises(ApiError) as refusal:
            found.topic(name)
        assert refusal.value.code == code


def test_an_assignment_of_another_protocol_type_is_ignored() -> None:
    assert read_assignment(b"") == ()
    assert read_assignment(b"\0\1garbage that is none") == ()


def test_a_refusal_names_resource_and_reason() -> None:
    with pytest.raises(ApiError, match=r"topic t: there are no brokers \(INVALID_REPLICATION_FACTOR\)"):
        check(ErrorCode.INVALID_REPLICATION_FACTOR, "topic t", "there are no brokers")
    check(ErrorCode.NONE, "nothing")
