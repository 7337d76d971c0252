"""Incidents, put right by the commands of their pages alone: docs/operations/frozen-node.md,
docs/operations/ended-certificate.md, docs/operations/slow-disk.md, docs/operations/wrong-clock.md."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jepsen.three_nodes import until
from tests.certificates import certificates
from tests.integration.drills import drill, incident


def test_a_frozen_node_serves_again_after_the_restart_of_its_page(tmp_path: Path) -> None:
    with drill(tmp_path, "docs/operations/frozen-node.md") as (frozen, writer):
        frozen.cluster.pause([2])
        frozen.must_speak(incident("a frozen node"))
        writer.more(100)
        frozen.follow("systemctl restart")


@pytest.mark.parametrize("listener", ["CLIENTS", "HTTP_ADMIN"])
def test_a_certificate_that_has_ended_is_replaced_while_the_node_runs(tmp_path: Path, listener: str) -> None:
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


@pytest.mark.parametrize(("seconds", "said"), [(3_600, "a clock an hour ahead"), (-86_400, "a clock a day behind")])
def test_a_wrong_clock_is_set_right_while_its_broker_is_fenced(tmp_path: Path, seconds: int, said: str) -> None:
    with drill(tmp_path, "docs/operations/wrong-clock.md", preload=True) as (wrong, writer):
        wrong.cluster.pages[2].jump(seconds)
        wrong.must_speak(incident(said))
        writer.more(100)
        wrong.follow("kraft cluster health || true")
        wrong.machine["chronyc"] = lambda words: wrong.cluster.pages[2].jump(0)
        wrong.follow("timedatectl")
        wrong.follow("kraft brokers fence 2 --end")


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
