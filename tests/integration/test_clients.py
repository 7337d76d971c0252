"""Unmodified clients over one node: what one of them writes, every other reads, in every codec."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.testing.foreign import librdkafka as foreign
from kraft.testing.node_process import NodeProcess
from tests.integration.plain_clients import CODECS, READERS, WRITERS, Record, kcat, read_confluent, write_confluent

BASE_MS = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}  # Tests write times of long ago.


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        yield node


def servers(node: NodeProcess) -> dict[str, str | int]:
    return {"bootstrap.servers": node.bootstrap, "log_level": 0}


def create(node: NodeProcess, topic: str, partitions: int = 1, **config: str) -> str:
    wanted = NewTopic(
        topic, partitions, 1, config={**KEPT, **{name.replace("_", "."): value for name, value in config.items()}}
    )
    admin = AdminClient(servers(node))
    for future in admin.create_topics([wanted]).values():
        future.result(30)
    return topic


def records_of(writer: str) -> list[Record]:
    """Records with every kind of absence, and repetitive enough for each codec to do its work. kcat cannot write
    times, kafka-python no null headers."""
    plain = [
        Record(b"key", b"value"),
        Record(None, b"value without a key"),
        Record(b"tombstone", None),
        *(Record(b"k%d" % index, b"%d " % index * 200) for index in range(40)),
    ]
    if writer == "kcat":
        return [*plain, Record(b"headers", b"value", (("a", b"1"), ("a", b"2")))]
    if writer != "kafka-python":
        plain.append(Record(b"null header", b"value", (("none", None),)))
    with_headers = Record(b"headers", b"", (("one", b"1"), ("two", b"2"), ("one", b"again"), ("empty", b"")))
    return [record._replace(timestamp=BASE_MS + index) for index, record in enumerate([*plain, with_headers])]


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_the_records_of_every_other_client(node: NodeProcess, codec: str) -> None:
    topic = create(node, f"codec-{codec}")
    written: list[Record] = []
    for name, write in WRITERS.items():
        records = records_of(name)
        write(node.bootstrap, topic, records, codec)
        written += records
    for name, read in READERS.items():
        seen = read(node.bootstrap, topic, len(written))
        assert [each.offset for each in seen] == list(range(len(written))), name
        for each, wanted in zip(seen, written, strict=True):
            if wanted.timestamp is None:
                assert each.record._replace(timestamp=None) == wanted, name
            else:
                assert each.record == wanted, name


@pytest.mark.parametrize("codec", CODECS)
def test_a_topic_with_its_own_compression_type_recompresses_batches(node: NodeProcess, codec: str) -> None:
    topic = create(node, f"recompressed-{codec}", compression_type="uncompressed" if codec == "none" else codec)
    records = records_of("confluent")
    write_confluent(node.bootstrap, topic, records, "gzip" if codec == "none" else "none")
    assert [seen.record for seen in read_confluent(node.bootstrap, topic, len(records))] == records


def test_log_append_time_overrides_the_producers_timestamps(node: NodeProcess) -> None:
    topic = create(node, "append-time", message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    write_confluent(node.bootstrap, topic, [Record(b"k", b"v", (), BASE_MS)], "lz4")
    (seen,) = read_confluent(node.bootstrap, topic, 1)
    assert seen.record.timestamp is not None
    assert before <= seen.record.timestamp <= int(time.time() * 1000)


def test_a_consumer_seeks_by_timestamp(node: NodeProcess) -> None:
    topic = create(node, "by-time", partitions=2)
    producer = Producer(servers(node))
    for index in range(200):
        producer.produce(topic, b"%d" % index, partition=index % 2, timestamp=BASE_MS + index * 1000)
        if index % 20 == 19:
            producer.flush(30)  # Several batches a partition: the look-up must find the batch and the record in it.
    assert producer.flush(30) == 0
    consumer = Consumer({**servers(node), "group.id": "by-time", "enable.auto.commit": False})
    wanted = [
        TopicPartition(topic, partition, BASE_MS + at)
        for partition, at in ((0, 0), (1, 100_500), (0, 100_000), (1, 199_000), (0, 198_001))
    ]
    found = [consumer.offsets_for_times([each], timeout=30)[0].offset for each in wanted]
    assert found == [0, 50, 50, 99, -1]  # -1 (the end): there is nothing as late.
    consumer.assign([TopicPartition(topic, 1, 50)])
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"101"
    assert consumer.get_watermark_offsets(TopicPartition(topic, 1), timeout=30) == (0, 100)
    consumer.close()
    assert kcat("-Q", "-b", node.bootstrap, "-t", f"{topic}:0:{BASE_MS + 100_000}").split() == [
        topic,
        "[0]",
        "offset",
        "50",
    ]


def test_large_records_and_many_records_are_read_back(node: NodeProcess) -> None:
    topic = create(node, "large", max_message_bytes="3000000", segment_bytes="1048576")
    large = [Record(b"large", bytes([index]) * 900_000) for index in range(6)]
    write_confluent(node.bootstrap, topic, large, "none")
    many = [Record(None, b"%d" % index) for index in range(20_000)]
    write_confluent(node.bootstrap, topic, many, "lz4")
    seen = read_confluent(node.bootstrap, topic, len(large) + len(many))
    assert [each.record[:2] for each in seen] == [record[:2] for record in large + many]


def test_a_record_too_large_is_rejected_and_the_producer_continues(node: NodeProcess) -> None:
    topic = create(node, "refused", max_message_bytes="10000")
    outcomes: list[int] = []
    producer = Producer({**servers(node), "linger.ms": 0})
    for size in (100, 20_000, 100):
        producer.produce(
            topic, b"x" * size, on_delivery=lambda problem, _: outcomes.append(problem.code() if problem else 0)
        )
        assert producer.flush(30) == 0
    assert outcomes == [0, KafkaError.MSG_SIZE_TOO_LARGE, 0]


def test_topics_are_auto_created_only_where_that_is_enabled(node: NodeProcess, tmp_path: Path) -> None:
    write_confluent(node.bootstrap, "made-on-first-use", [Record(b"k", b"v")], "none")
    assert len(read_confluent(node.bootstrap, "made-on-first-use", 1)) == 1
    WRITERS["kafka-python"](node.bootstrap, "made-on-first-use-too", [Record(b"k", b"v")], "none")
    WRITERS["aiokafka"](node.bootstrap, "and-by-the-third", [Record(b"k", b"v")], "none")
    with NodeProcess(tmp_path, "--set", "auto.create.topics.enable=false") as strict:
        outcomes: list[int] = []
        producer = Producer({**servers(strict), "message.timeout.ms": 1500, "topic.metadata.propagation.max.ms": 200})
        producer.produce(
            "nowhere", b"v", on_delivery=lambda problem, _: outcomes.append(problem.code() if problem else 0)
        )
        producer.flush(30)
        assert outcomes in (
            [KafkaError._UNKNOWN_TOPIC],
            [KafkaError.UNKNOWN_TOPIC_OR_PART],
            [KafkaError._MSG_TIMED_OUT],
        )
        assert "nowhere" not in AdminClient(servers(strict)).list_topics(timeout=30).topics


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_an_idempotent_producer_survives_a_node_restart(tmp_path: Path, how: str) -> None:
    with NodeProcess(tmp_path) as node:
        topic = create(node, "through")
        producer = foreign.Producer(
            {**servers(node), "enable.idempotence": True, "linger.ms": 1, "reconnect.backoff.max.ms": 200}
        )
        failures: list[object] = []

        def produce(first: int) -> None:
            for index in range(first, first + 500):
                producer.produce(
                    topic,
                    b"%d" % index,
                    partition=0,
                    on_delivery=lambda problem, _: failures.append(problem) if problem else None,
                )
                producer.poll(0)

        produce(0)
        node.stop() if how == "stop" else node.kill()
        produce(500)
        node.start()
        produce(1000)
        assert producer.flush(60) == 0
        assert not failures
        seen = read_confluent(node.bootstrap, topic, 1500)
        assert [each.record.value for each in seen] == [b"%d" % index for index in range(1500)]
        assert [each.offset for each in seen] == list(range(1500))
