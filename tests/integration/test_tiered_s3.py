"""Tiered storage over the real S3 protocol: what is acknowledged is read back as it was written, whatever the store and
the network do, and a deleted topic leaves nothing in the bucket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from jepsen.s3_server import BUCKET, Fault, S3Server, running_s3
from kraft.cli.admin.app import main
from kraft.testing.foreign.librdkafka import AdminClient, Consumer
from kraft.testing.node_process import NodeProcess
from tests.integration.plain_clients import Record, write_confluent
from tests.integration.tiered_cluster import SECONDS_MAX, SEGMENT, create, log_bytes, options, records_of, until

URI = f"s3://{BUCKET}/prefix"
SEGMENT_OF_PARTS = 9 << 20
"""More than goes into one request."""
LOCAL = 1 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


@pytest.fixture
def s3(server: S3Server) -> S3Server:
    """It has no faults yet."""
    server.fault = Fault.NONE
    return server


def read_values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first `count` values, each at its offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    give_up = time.monotonic() + SECONDS_MAX
    try:
        while len(values) < count:
            assert time.monotonic() < give_up, f"{len(values)} records were read"
            for message in consumer.consume(1000, 0.5):
                assert message.error() is None
                assert message.offset() == len(values)
                values.append(bytes(message.value()))
    finally:
        consumer.close()
    return values


def delete(bootstrap: str, topic: str) -> None:
    AdminClient({"bootstrap.servers": bootstrap}).delete_topics([topic])[topic].result(SECONDS_MAX)


def values_of(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def copied(s3: S3Server) -> int:
    return sum(key.endswith(".log") for key in s3.names())


def test_a_topic_is_copied_to_s3_read_back_and_deleted(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NodeProcess(tmp_path / "node", *options(URI), environment=s3.environment) as node:
        limits = {"segment.bytes": str(SEGMENT_OF_PARTS), "local.retention.bytes": str(LOCAL)}
        create(node.bootstrap, "t", **limits)
        directory = tmp_path / "node" / "data" / "t-0"
        written = records_of(24_000)
        write_confluent(node.bootstrap, "t", written, "none")
        until(lambda: log_bytes(directory) <= SEGMENT_OF_PARTS)
        assert copied(s3) == 2
        assert read_values(node.bootstrap, "t", len(written)) == values_of(written)

        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        assert main(["storage", "remote", "verify", "--store", URI, "--read", "-b", node.bootstrap]) == 0

        node.kill()
        node.start()
        assert read_values(node.bootstrap, "t", len(written)) == values_of(written)
        delete(node.bootstrap, "t")
        until(lambda: s3.names() == [])
        assert node.stop() == 0


FAULTS = (Fault.OUTAGE, Fault.ERROR, Fault.SLOW, Fault.TRUNCATED, Fault.LOST_ANSWER)
BITES = {Fault.OUTAGE: 8, Fault.ERROR: 8, Fault.SLOW: 8, Fault.TRUNCATED: 8, Fault.LOST_ANSWER: 8}
"""The library tries a request again a few times by itself: so many reach the node as failures."""


def test_no_record_is_lost_while_s3_fails(s3: S3Server, tmp_path: Path) -> None:
    with NodeProcess(
        tmp_path / "node",
        *options(URI, "remote.log.manager.task.retry.backoff.max.ms=500"),
        environment=s3.environment,
    ) as node:
        create(node.bootstrap, "t", **{"local.retention.bytes": str(LOCAL)})
        directory = tmp_path / "node" / "data" / "t-0"
        written: list[Record] = []

        def write(count: int) -> None:
            more = records_of(count, len(written))
            write_confluent(node.bootstrap, "t", more, "none")
            written.extend(more)

        write(3000)
        until(lambda: copied(s3) >= 1)
        for fault in FAULTS:
            bitten = s3.bites[fault]
            s3.fault = fault
            write(3000)
            until(lambda fault=fault, bitten=bitten: s3.bites[fault] >= bitten + BITES[fault])
            s3.fault = Fault.NONE
        until(lambda: 0 < log_bytes(directory) <= LOCAL + SEGMENT)
        assert read_values(node.bootstrap, "t", len(written)) == values_of(written)

        # An outage meets the topic's deletion, too.
        s3.fault = Fault.LOST_ANSWER
        delete(node.bootstrap, "t")
        bitten = s3.bites[Fault.LOST_ANSWER]
        until(lambda: s3.bites[Fault.LOST_ANSWER] >= bitten + BITES[Fault.LOST_ANSWER])
        s3.fault = Fault.NONE
        until(lambda: s3.names() == [])
        assert node.stop() == 0


@pytest.mark.parametrize("fault", [Fault.OUTAGE, Fault.ERROR, Fault.TRUNCATED])
def test_a_consumer_of_old_records_waits_until_s3_responds(s3: S3Server, tmp_path: Path, fault: Fault) -> None:
    with NodeProcess(tmp_path / "node", *options(URI), environment=s3.environment) as node:
        create(node.bootstrap, "t", **{"local.retention.bytes": str(LOCAL)})
        written = records_of(4000)
        write_confluent(node.bootstrap, "t", written, "none")
        until(lambda: 0 < log_bytes(tmp_path / "node" / "data" / "t-0") <= LOCAL + SEGMENT)
        s3.fault = fault
        bitten = s3.bites[fault]
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "waits", "check.crcs": True})
        consumer.assign([TopicPartition("t", 0, 0)])
        try:
            while s3.bites[fault] < bitten + BITES[fault]:
                assert consumer.consume(1, 0.2) == [], "the store gave nothing whole"
        finally:
            s3.fault = Fault.NONE
            consumer.close()
        assert read_values(node.bootstrap, "t", len(written)) == values_of(written)
        delete(node.bootstrap, "t")
        until(lambda: s3.names() == [])
