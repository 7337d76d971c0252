"""A topic with segments in the remote storage of a plugin of Apache Kafka: what stops a replacement, and the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from jepsen.java.kafka import BEFORE, ApacheKafka, tool
from kraft.cli.admin.app import main
from tests.capabilities import require_capability
from tests.integration.rolling_kafka import Member, until
from tests.properties.test_tiers_against_kafka import kafka_settings

PAGE = "docs/operations/migrate.md"
COUNT = 400
TIERED = ("remote.", "rsm.", "rlmm.")


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_topic_is_taken_over_once_its_remote_storage_has_been_disabled(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def told(config: Path) -> tuple[int, list[str]]:
        capfd.readouterr()
        code = main(["migrate", "check", "-b", kafka.bootstrap, "--config", str(config), "-o", "json"])
        findings: list[dict[str, Any]] = json.loads(capfd.readouterr().out)["findings"]
        return code, [f"{each['finding']}; {each['remedy']}" for each in findings if each["verdict"] == "stops it"]

    def changed(*settings: str) -> None:
        at = ("--bootstrap-server", kafka.bootstrap, "--entity-type", "topics", "--entity-name", "tiered")
        tool("configs", *at, "--alter", "--add-config", ",".join(settings))

    require_capability("java17")
    require_capability("mvn")
    store = tmp_path / "store"
    kafka = ApacheKafka(tmp_path / "kafka", settings=kafka_settings(store), heap="-Xmx512M", release=BEFORE)
    properties = kafka.directory / "server.properties"
    member = Member(kafka)
    try:
        kafka.start()
        usual = ("remote.storage.enable=true", "internal.segment.bytes=1500", "local.retention.bytes=4000")
        at = ("--bootstrap-server", kafka.bootstrap)
        settings = [word for each in usual for word in ("--config", each)]
        tool("topics", *at, "--create", "--topic", "tiered", *settings, release=BEFORE)
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for number in range(COUNT):
            producer.produce("tiered", b"%0100d" % number)
            producer.flush(30)
        folder = kafka.data_directory / "tiered-0"
        until(lambda: min(int(path.stem) for path in folder.glob("*.log")) > COUNT / 2, "segments that left the disk")
        code, stops = told(properties)
        assert code == 1
        assert any(each.startswith("segments in remote storage are written by a plugin: tiered;") for each in stops)
        assert any("remote.log.storage.system.enable" in each for each in stops)
        changed("remote.storage.enable=false", "remote.log.delete.on.disable=true")
        until(lambda: not list(store.rglob("*.log")), "empty store")
        kafka.stop()
        lines = properties.read_text(encoding="utf-8").splitlines(keepends=True)
        properties.write_text("".join(each for each in lines if not each.startswith(TIERED)), encoding="utf-8")
        kafka.launch()
        kafka.wait_until_listening()
        assert told(properties) == (0, [])
        begin = told_offset(kafka, "earliest")
        assert begin > COUNT / 2
        kafka.kill()
        for ours in (True, False):
            member.start(ours=ours)
            until(lambda: told_offset(kafka, "latest") == COUNT, "end of the topic")
            assert told_offset(kafka, "earliest") == begin
            member.stop()
    finally:
        if member.ours.runs:
            member.ours.kill()
        kafka.kill()


def told_offset(kafka: ApacheKafka, what: str) -> int:
    at = ("--bootstrap-server", kafka.bootstrap, "--topic", "tiered")
    return int(tool("get-offsets", *at, "--time", what, release=BEFORE).stdout.strip().rpartition(":")[2])
