"""`kraft perf` against a node: it sends and reads what it was told to, and says what is not to be had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kraft.cli.admin.app import main
from kraft.testing.node_process import NodeProcess


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with NodeProcess(tmp_path_factory.mktemp("perf") / "node") as node:
        assert main(["topics", "create", "t", "--partitions", "3", "--bootstrap-server", node.ready["kafka"]]) == 0
        yield node.ready["kafka"]


def perf(bootstrap: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["perf", *arguments, "--bootstrap-server", bootstrap, "-o", "json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_perf_sends_and_reads_the_requested_number_of_records(
    bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = perf(bootstrap, capsys, "produce", "t", "-n", "12345", "-s", "50", "-z", "lz4")
    assert (sent["record_count"], sent["bytes"]) == (12345, 12345 * 50)
    assert 0 < sent["p50_ms"] <= sent["p99_ms"] <= sent["max_ms"]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "x"})
    ends = [consumer.get_watermark_offsets(TopicPartition("t", index), timeout=30)[1] for index in range(3)]
    consumer.close()
    assert sum(ends) == 12345
    read = perf(bootstrap, capsys, "consume", "t", "-n", "12000")
    assert (read["record_count"], read["bytes"]) == (12000, 12000 * 50)


def test_perf_keeps_to_the_requested_rate(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = perf(bootstrap, capsys, "produce", "t", "-n", "600", "--rate", "400", "--acks", "1")
    assert told["seconds"] > 1.4, "never faster"


def test_perf_reads_each_record_back(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = perf(bootstrap, capsys, "end-to-end", "t", "-n", "30", "-s", "20")
    assert told["record_count"] == 30
    assert 0 < told["p50_ms"] <= told["max_ms"]


def test_perf_reports_missing_records_and_wrong_usage(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["perf", "consume", "t", "-n", "100000000", "--timeout", "1", "--bootstrap-server", bootstrap]
    assert main(arguments) == 1
    assert "no more within 1 s" in capsys.readouterr().err
    assert main(["perf", "produce", "t", "--acks", "2", "--bootstrap-server", bootstrap]) == 2
