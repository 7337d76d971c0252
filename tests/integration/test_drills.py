"""Incidents, put right by the commands of their pages alone: docs/operations/frozen-node.md,
docs/operations/ended-certificate.md, docs/operations/slow-disk.md, docs/operations/wrong-clock.md,
docs/operations/unreachable-address.md, docs/operations/hanging-transaction.md, docs/operations/lost-quorum.md."""

from __future__ import annotations

import os
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jepsen.three_nodes import until
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records.builder import Record, build_batch
from tests.certificates import certificates
from tests.integration.drills import Drill, drill, incident

HOUR_MS = 3_600_000
OLD_PRODUCER = 4711
BEFORE_VERIFICATION = 11
"""The last version of Produce whose transactions only the feature of verification asks a coordinator about."""


def test_a_frozen_node_serves_again_after_the_restart_of_its_runbook(tmp_path: Path) -> None:
    with drill(tmp_path, "docs/operations/frozen-node.md") as (frozen, writer):
        frozen.cluster.pause([2])
        frozen.must_speak(incident("a frozen node"))
        writer.more(100)
        frozen.follow("systemctl restart")


@pytest.mark.soak
def test_a_quorum_recovers_when_the_stopped_controllers_are_started(tmp_path: Path) -> None:
    with drill(tmp_path, "docs/operations/lost-quorum.md") as (lost, writer):
        lost.cluster.kill([2, 3])
        lost.must_speak(incident("a lost quorum"))
        lost.follow("systemctl start kraft@2")
        writer.more(100)
        lost.type("systemctl start kraft@3")


@pytest.mark.soak
def test_an_unreachable_advertised_address_is_fixed_by_a_restart(tmp_path: Path) -> None:
    with drill(tmp_path, "docs/operations/unreachable-address.md") as (wrong, _):
        wrong.type("kraft topics create more -p 6 -r 3")
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))  # Nobody listens here, or can begin to.
            properties = wrong.cluster.properties(2)
            own = f"CLIENTS://{wrong.cluster.addresses[2].kafka}"
            deaf = f"advertised.listeners=CLIENTS://127.0.0.1:{held.getsockname()[1]}"
            properties.write_text(properties.read_text().replace(f"advertised.listeners={own}", deaf))
            wrong.type("systemctl restart kraft@2")
            wrong.type("kraft elections preferred")
            wrong.begin()
            wrong.must_speak(incident("an unreachable address"))
            wrong.follow("kraft doctor || true")
            wrong.follow("sed -i", {"PLAINTEXT://HOST:9092": own, "node-2.properties": str(properties)})


@pytest.mark.soak
def test_a_hanging_transaction_is_found_and_aborted(tmp_path: Path) -> None:
    with drill(tmp_path, "docs/operations/hanging-transaction.md") as (hanging, writer):
        hanging.cluster.create("accounts")
        hanging.type("kraft configs set cluster transaction.partition.verification.enable=false")
        produce(hanging, b"never ended", OLD_PRODUCER)
        produce(hanging, b"behind it", None)
        hanging.begin()
        hanging.must_speak(incident("a hanging transaction"))
        writer.more(100)
        hanging.follow("kraft transactions find-hanging\n")
        hanging.follow("kraft transactions abort", {"payments-0": "accounts-0", "4711": "0"})
        hanging.follow("kraft configs delete")
        assert [value for _, _, value in hanging.cluster.read("accounts", 1)] == [b"behind it"]


def produce(hanging: Drill, value: bytes, producer_id: int | None) -> None:
    """One record that is an hour old, in a transaction that nobody has begun if there is a producer id."""
    record = Record(0, int(time.time() * 1000) - HOUR_MS, None, value, ())
    batch = (
        build_batch([record])
        if producer_id is None
        else build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    request = ProduceRequest(
        transactional_id=None if producer_id is None else "ghost",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="accounts", partition_data=[PartitionProduceData(index=0, records=batch)])],
    )
    leader = hanging.cluster.leader("accounts")
    until(lambda: taken(hanging.cluster.ask(leader, request, BEFORE_VERIFICATION)), "the leader refuses it")


def taken(answer: Any) -> bool:
    return not answer.responses[0].partition_responses[0].error_code


@pytest.mark.parametrize("listener", ["CLIENTS", pytest.param("HTTP_ADMIN", marks=pytest.mark.soak)])
def test_an_expired_certificate_is_replaced_while_the_node_runs(tmp_path: Path, listener: str) -> None:
    stores = certificates().write(tmp_path)
    for node in (1, 2, 3):
        for name in ("clients", "admin"):
            (stores / f"{name}-{node}.pem").write_text("".join(certificates().renewed()))
    (stores / "client.properties").write_text(f"security.protocol=SSL\nssl.truststore.location={stores}/ca.pem\n")
    common = (
        f"listener.name.clients.ssl.keystore.location={stores}/clients-NODE.pem",
        f"listener.name.clients.ssl.truststore.location={stores}/ca.pem",
        f"kraft.admin.ssl.keystore.location={stores}/admin-NODE.pem",
    )
    client = str(stores / "client.properties")
    with drill(
        tmp_path, "docs/operations/ended-certificate.md", *common, tls=certificates().anybody, client=client
    ) as (ended, writer):
        store = f"{'clients' if listener == 'CLIENTS' else 'admin'}-2.pem"
        end = datetime.now(UTC) + timedelta(seconds=15)
        replace(stores / store, certificates().ending(end))
        said = f"an ended certificate of {'a listener' if listener == 'CLIENTS' else 'the HTTP admin'}"
        until(lambda: incident(said).alert in ended.alerts(), "the alert does not speak before the end")
        until(lambda: datetime.now(UTC) > end, "the certificate does not end")
        ended.begin()
        ended.must_speak(incident(said))
        writer.more(100)
        address = ended.cluster.addresses[2].kafka
        ended.follow("kraft cluster health || true", {"NODE:9092": address})
        (stores / "new.pem").write_text("".join(certificates().renewed()))
        ended.follow("mv new.pem", {"node-2.pem": store})


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (3_600, "a clock an hour ahead"),
        pytest.param(-86_400, "a clock a day behind", marks=pytest.mark.soak),
    ],
)
def test_a_wrong_clock_is_corrected_while_its_broker_is_fenced(tmp_path: Path, seconds: int, said: str) -> None:
    with drill(tmp_path, "docs/operations/wrong-clock.md", preload=True) as (wrong, writer):
        wrong.cluster.pages[2].jump(seconds)
        wrong.must_speak(incident(said))
        writer.more(100)
        wrong.follow("kraft cluster health || true")
        wrong.machine["chronyc"] = lambda words: wrong.cluster.pages[2].jump(0)
        wrong.follow("timedatectl")
        wrong.follow("kraft brokers fence 2 --end")


@pytest.mark.soak
def test_a_slow_disk_is_replaced_while_its_node_is_in_maintenance(tmp_path: Path) -> None:
    with drill(tmp_path, "docs/operations/slow-disk.md", preload=True) as (slow, writer):
        slow.cluster.pages[2].delay_syncs(1.5)
        slow.must_speak(incident("a slow disk"))
        writer.more(100)
        slow.follow("kraft cluster health || true")
        slow.follow("iostat")
        slow.cluster.pages[2].clear()
        slow.follow("systemctl restart")


def replace(store: Path, keys: tuple[str, str]) -> None:
    (store.parent / "next.pem").write_text("".join(keys))
    os.replace(store.parent / "next.pem", store)
