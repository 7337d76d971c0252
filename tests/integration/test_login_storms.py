"""Storms of half handshakes, of connections that never log in, and of wrong passwords, on the listener that clients
use: who is in goes on writing, and who comes gets in."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.testing.node_process import NodeProcess
from tests.certificates import certificates

SECONDS_MAX = 60
STORM_SECONDS = 8
PERIOD_SECONDS = 0.05
WAIT_SECONDS_MAX = 2.0
"""The longest that one record of the probe may wait for its acknowledgement, on a busy machine."""
LOGIN_SECONDS_MAX = 4.0
"""The longest that a new client may wait. Where nobody made room, it would wait for the end of the storm."""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = f"""\
listeners=CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={PLAIN} required \\
  username="node" password="n" user_node="n" user_alice="a";
ssl.keystore.location={{0}}/node.pem
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = certificates().write(tmp_path_factory.mktemp("storm"))
    (directory / "node.properties").write_text(SETTINGS.format(directory))
    with NodeProcess(directory, "--config", str(directory / "node.properties")) as node:
        admin = AdminClient(client(node))
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(SECONDS_MAX)
        yield node


def client(node: NodeProcess) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.bootstrap,
        "log_level": 0,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(Path(node.directory) / "ca.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "a",
    }


def written(producer: Producer) -> float:
    """Seconds until one record is acknowledged."""
    began, failures = time.monotonic(), []
    producer.produce("t", b"x", callback=lambda problem, _: problem and failures.append(problem))
    assert producer.flush(SECONDS_MAX) == 0
    assert failures == []
    return time.monotonic() - began


@pytest.mark.parametrize("kind", ["half", "silent", "guess"])
def test_connected_clients_continue_and_new_clients_log_in_during_a_login_storm(node: NodeProcess, kind: str) -> None:
    probe = Producer({**client(node), "acks": "all", "linger.ms": 0})
    written(probe)
    command = [sys.executable, "-m", "tests.integration.login_storm", node.bootstrap, kind, str(STORM_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as storm:
        began, waits, entry = time.monotonic(), [], 0.0
        while storm.poll() is None:
            waits.append(written(probe))
            if not entry and time.monotonic() > began + STORM_SECONDS / 4:
                entry = written(Producer({**client(node), "acks": "all"}))
            time.sleep(PERIOD_SECONDS)
        count = int(storm.stdout.read())
    assert count > 50
    assert len(waits) > 20
    assert max(waits) < WAIT_SECONDS_MAX
    assert 0 < entry < LOGIN_SECONDS_MAX
    assert node.runs
