"""A running cluster whose controllers go over from PLAINTEXT to SASL_SSL, one node after the other, while a producer
writes: docs/security.md tells the steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.cli.admin.app import main
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import HOST, free_ports
from kraft.testing.process_cluster import CLUSTER_ID
from tests.certificates import certificates
from tests.integration.dynamic_quorum import DIRECTORY_IDS

SECONDS_MAX = 60
NODES = (1, 2, 3)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
COMMON = f"""\
listener.security.protocol.map=CLIENTS:PLAINTEXT,OPEN:PLAINTEXT,SAFE:SASL_SSL
inter.broker.listener.name=CLIENTS
sasl.mechanism.controller.protocol=PLAIN
listener.name.safe.sasl.enabled.mechanisms=PLAIN
listener.name.safe.plain.sasl.jaas.config={PLAIN} required username="node" password="n" user_node="n";
ssl.keystore.location={{0}}/node.pem
ssl.truststore.location={{0}}/ca.pem
"""
STEPS = (("OPEN",), ("OPEN", "SAFE"), ("SAFE", "OPEN"), ("SAFE",))
"""Controllers' listeners. A node reaches others by the first."""


class Rolled:
    def __init__(self, directory: Path, voters_in_log: bool) -> None:
        """`voters_in_log`: a quorum of kraft.version 1 (KIP-853)."""
        self.directory = directory
        self.voters_in_log = voters_in_log
        ports = free_ports(9)
        self.ports = {
            name: dict(zip(NODES, ports[3 * index :], strict=False))
            for index, name in enumerate(("CLIENTS", "OPEN", "SAFE"))
        }
        self.bootstrap = ",".join(f"{HOST}:{port}" for port in self.ports["CLIENTS"].values())
        self.nodes: dict[int, NodeProcess] = {}

    def make(self, node: int, controllers: tuple[str, ...]) -> NodeProcess:
        path = self.directory / f"{node}.properties"
        process = NodeProcess(self.directory / str(node), "--config", str(path), listen=None, controller_listen=None)
        listeners = ",".join(f"{name}://{HOST}:{self.ports[name][node]}" for name in ("CLIENTS", *controllers))
        quorum = {voter: f"{HOST}:{port}" for voter, port in self.ports[controllers[0]].items()}
        voters = ",".join(f"{voter}@{address}" for voter, address in quorum.items())
        path.write_text(
            COMMON.format(self.directory)
            + f"listeners={listeners}\ncontroller.listener.names={','.join(controllers)}\n"
            + f"process.roles=broker,controller\nnode.id={node}\nlog.dirs={process.data_directories}\n"
            + (
                f"controller.quorum.bootstrap.servers={','.join(quorum.values())}\n"
                if self.voters_in_log
                else f"controller.quorum.voters={voters}\n"
            )
        )
        if controllers == STEPS[0]:
            process.directory.mkdir(parents=True)
            initial = ",".join(f"{voter}@{quorum[voter]}:{DIRECTORY_IDS[voter]}" for voter in NODES)
            how = ("--initial-controllers", initial) if self.voters_in_log else ()
            assert main(["storage", "format", "--cluster-id", CLUSTER_ID, "--config", str(path), *how]) == 0
        return process

    def healthy(self) -> None:
        assert main(["cluster", "health", "--wait", "60", "--bootstrap-server", self.bootstrap]) == 0


@pytest.fixture(params=[False, True], ids=["voters-named", "voters-in-log"])
def rolled(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rolled]:
    cluster = Rolled(certificates().write(tmp_path), request.param)
    try:
        yield cluster
    finally:
        for node in cluster.nodes.values():
            node.__exit__(None, None, None)


def test_controllers_migrate_to_sasl_ssl_one_by_one_under_a_producer(rolled: Rolled) -> None:
    rolled.nodes = {node: rolled.make(node, STEPS[0]) for node in NODES}
    starters = [threading.Thread(target=process.start) for process in rolled.nodes.values()]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    rolled.healthy()
    topic = NewTopic("kept", 3, 3, config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": rolled.bootstrap})
    admin.create_topics([topic])["kept"].result(SECONDS_MAX)
    failures: list[Any] = []
    written = 0
    is_over = threading.Event()

    def write() -> None:
        nonlocal written
        producer = Producer(
            {"bootstrap.servers": rolled.bootstrap, "enable.idempotence": True, "delivery.timeout.ms": 60_000}
        )
        while not is_over.wait(0.05):
            producer.produce("kept", b"%d" % written, callback=lambda bad, _: bad and failures.append(bad))
            producer.poll(0)
            written += 1
        assert producer.flush(SECONDS_MAX) == 0

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for step in STEPS[1:]:
            for node in NODES:
                assert rolled.nodes[node].stop() == 0
                rolled.nodes[node] = rolled.make(node, step)
                rolled.nodes[node].start()
                rolled.healthy()
    finally:
        is_over.set()
        writer.join()
    assert failures == []
    ends = Consumer({"bootstrap.servers": rolled.bootstrap, "group.id": "g"})
    counts = [ends.get_watermark_offsets(TopicPartition("kept", index), SECONDS_MAX)[1] for index in range(3)]
    assert sum(counts) == written > 0
