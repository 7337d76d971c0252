"""A cluster of Apache Kafka becomes one of ours node by node, over the same disks, and goes back, while clients work:
the commands of docs/operations/migrate.md."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from jepsen.java.kafka import BEFORE, REFERENCE, ApacheKafka, tool
from kraft.cli.admin.app import main
from kraft.testing.certificates import authority
from tests.capabilities import require_capability
from tests.docs.blocks import find_block
from tests.integration.rolling_clients import GROUPS, Clients
from tests.integration.rolling_kafka import RollingCluster, until
from tests.integration.secured_kafka import pkcs12_stores

PAGE = "docs/operations/migrate.md"
SECONDS_BETWEEN = 2.0
"""Of work between two changes."""


@pytest.mark.timeout(580)
@pytest.mark.parametrize(
    ("dynamic", "release", "killed"),
    [
        pytest.param(True, REFERENCE, (1, 6), id="dynamic-voters"),
        pytest.param(False, BEFORE, (3, 4), id="static-voters-of-the-release-before", marks=pytest.mark.soak),
    ],
)
def test_kafkas_nodes_are_replaced_by_ours_and_back_one_by_one_and_nothing_is_lost(
    dynamic: bool, release: str, killed: tuple[int, ...], tmp_path: Path
) -> None:
    """`killed` are the changes, from 1 to 6, before which the node is killed instead of stopped."""
    require_capability("java17")
    require_capability("mvn")
    cluster = RollingCluster(tmp_path, dynamic=dynamic, release=release)
    try:
        cluster.start()
        clients = Clients(cluster.bootstrap)
        clients.create_topics()
        until(lambda: cluster.lagging() == [], "replicas in sync")
        clients.start()
        try:
            until(lambda: all(clients.seen[name] for name in GROUPS), "record in each group")
            changes = [(1, True), (2, True), (3, True), (3, False), (1, False), (2, False)]
            for count, (number, ours) in enumerate(changes, 1):
                cluster.change(number, ours=ours, kill=count in killed)
                assert main(by_the_book("systemctl stop kafka", cluster.bootstrap)) == 0
                time.sleep(SECONDS_BETWEEN)
        finally:
            clients.stop()
        print("longest pauses in seconds:", {name: round(seconds, 1) for name, seconds in clients.pauses.items()})
        clients.judge(tmp_path)
    finally:
        cluster.kill()


def by_the_book(first: str, bootstrap: str, properties: str = "") -> list[str]:
    """The last command of a block, for this cluster and file."""
    line = find_block(PAGE, first).text.splitlines()[-1]
    words = shlex.split(line.replace("NODE:9092", bootstrap).replace("/etc/kafka/server.properties", properties))
    assert words[0] == "kraft"
    return words[1:]


def test_the_check_before_a_roll_reads_a_cluster_of_kafka_and_a_properties_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def check(properties: Path) -> tuple[int, dict[str, Any]]:
        capfd.readouterr()
        code = main([*by_the_book("kraft migrate check", kafka.bootstrap, str(properties)), "-o", "json"])
        return code, json.loads(capfd.readouterr().out)

    require_capability("java17")
    require_capability("mvn")
    with ApacheKafka(tmp_path / "kafka", settings={"num.io.threads": "9"}) as kafka:
        tool("topics", "--bootstrap-server", kafka.bootstrap, "--create", "--topic", "t")
        code, told = check(kafka.directory / "server.properties")
        verdicts = {(each["subject"], each["verdict"]): each["finding"] for each in told["findings"]}
        assert (code, told["is_safe"]) == (0, True), told
        assert verdicts[("features", "fine")].startswith("metadata.version 33 (4.4-IV2)")
        assert verdicts[("quorum", "changes")].startswith("1 dynamic voter: 1")
        assert "num.io.threads has no effect here" in verdicts[("broker 1", "changes")]
        other = tmp_path / "server.properties"
        usual = (kafka.directory / "server.properties").read_text(encoding="utf-8")
        other.write_text(usual + "client.quota.callback.class=org.example.Callback\n", encoding="utf-8")
        code, told = check(other)
        assert (code, told["is_safe"]) == (1, False)
        keys = tmp_path / "keys"
        keys.mkdir()
        (keys / "node.pem").write_text(authority().issued("node"), encoding="utf-8")
        (keys / "ca.pem").write_text(authority().pem, encoding="utf-8")
        secured = usual.replace("PLAINTEXT:", "CLIENTS:", 1).replace(
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT", "listener.security.protocol.map=CLIENTS:SSL"
        )
        assert "CLIENTS://" in secured
        assert "CLIENTS:SSL" in secured
        for kind, safe in (("JKS", False), ("PKCS12", True)):
            stores = pkcs12_stores(keys, kind)
            other.write_text(secured + "".join(f"{key}={text}\n" for key, text in stores.items()), encoding="utf-8")
            code, told = check(other)
            assert (code, told["is_safe"]) == (int(not safe), safe), told
            refused = [each["finding"] for each in told["findings"] if "is a JKS file" in each["finding"]]
            assert len(refused) == (0 if safe else 1)
            assert all("keytool -importkeystore" in each for each in refused)
