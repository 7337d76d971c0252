"""Clients that push their metrics in the console, in a real browser, on one node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from tests.capabilities import require_capability
from tests.integration.axe import serious_faults
from tests.integration.browser import Browser, browser
from tests.integration.console_browser import type_into
from tests.integration.console_pages import make_topic, show
from tests.integration.rest_node import RunningNode, running_node

HOSTILE = "<img src=x onerror=document.title='owned'>"
SUBSCRIBE = ("configs", "set", "client-metrics", "all", "metrics=*", "interval.ms=1000")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    require_capability("chromium")
    with running_node(tmp_path_factory.mktemp("clients")) as started:
        make_topic(started, "metered", 1)
        yield started


@pytest.fixture(scope="module")
def tab(node: RunningNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        started.look(width=1280, height=900, dark=False)
        yield started


@pytest.fixture
def measured(node: RunningNode) -> Iterator[tuple[Producer, Consumer]]:
    """A producer and a consumer that are asked for their metrics every second."""
    command = [sys.executable, "-m", "kraft.cli.admin.app", *SUBSCRIBE, "--bootstrap-server", node.kafka]
    subprocess.run(command, check=True, timeout=60)
    producer = Producer({"bootstrap.servers": node.kafka, "client.id": HOSTILE, "linger.ms": 0})
    reader = {"bootstrap.servers": node.kafka, "client.id": "reader", "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(reader)
    consumer.subscribe(["metered"])
    yield producer, consumer
    consumer.close()
    producer.flush(10)


def rows(tab: Browser) -> list[dict[str, str]]:
    """The cells of each row, by the head of their column."""
    found: list[dict[str, str]] = tab.run(
        "[...document.querySelectorAll('tbody tr')].map(row => Object.fromEntries("
        "[...row.cells].map(cell => [cell.dataset.label, cell.innerText.trim()])))"
    )
    return found


def look(tab: Browser, name: str) -> None:
    """Keep a picture where KRAFT_PICTURES names a folder."""
    if folder := os.environ.get("KRAFT_PICTURES"):
        tab.photograph(Path(folder, f"{name}.png"))


def test_the_list_says_how_to_ask_for_metrics_where_no_client_is_known(node: RunningNode, tab: Browser) -> None:
    show(tab, node, "clients")
    look(tab, "clients-empty")
    assert "No client has asked whether its metrics are wanted." in tab.text()
    assert " ".join(("kraft", *SUBSCRIBE[:5])) in tab.text()
    assert "clients without KIP-714 are never seen here" in tab.text()
    assert serious_faults(tab) == []
    assert tab.complaints == []


def test_clients_are_listed_the_slowest_first_and_their_texts_stay_texts(
    node: RunningNode, tab: Browser, measured: tuple[Producer, Consumer]
) -> None:
    producer, consumer = measured
    show(tab, node, "clients")
    shown = "[...document.querySelectorAll('td[data-label=\"{}, ms\"]')].some(d => /[1-9]/.test(d.innerText))"
    while not (tab.run(shown.format("produce")) and tab.run(shown.format("fetch"))):
        producer.produce("metered", b"v")
        producer.flush(10)
        consumer.poll(0.1)
    first, second = rows(tab)
    look(tab, "clients")
    assert [each["client"] for each in (first, second)] == [HOSTILE, "reader"]
    assert "confluent-kafka-python" in first["software"]
    assert (first["address"], first["brokers"], first["fetch, ms"], second["produce, ms"]) == (
        "127.0.0.1",
        "1",
        "–",
        "–",
    )
    assert not tab.run("document.querySelector('main img')")
    assert serious_faults(tab) == []
    heads = "[...document.querySelectorAll('th button')].find(b => b.innerText === 'fetch, ms').click()"
    tab.run(heads)
    tab.until("document.querySelector('tbody tr td').innerText === 'reader'")
    assert tab.run("location.search") == "?sort=-fetch_latency_ms"
    type_into(tab, "input[name=filter]", "ONERROR")
    tab.until("document.querySelectorAll('tbody tr').length === 1")
    [only] = rows(tab)
    assert only["client"] == HOSTILE
    tab.run("document.querySelector('tbody a').click()")
    tab.until("document.querySelector('#page[data-ready=client]')")
    look(tab, "client")
    assert {each.get("metric") for each in rows(tab)} >= {"producer.node.request.latency.avg"}
    assert HOSTILE in tab.run("document.querySelector('h1').innerText")
    known = {each["what"]: each["value"] for each in rows(tab) if "what" in each}
    assert (known["pushes to broker"], known["subscriptions"], known["push interval"]) == ("1", "all", "1 s")
    assert tab.run("document.title") != "owned"
    assert serious_faults(tab) == []
    assert tab.complaints == []


def test_the_page_of_an_unknown_client_says_so(node: RunningNode, tab: Browser) -> None:
    tab.open(f"{node.admin}/ui/client?id={'A' * 22}")
    tab.until("document.querySelector('.note.bad')")
    assert f"Client {'A' * 22}" in tab.text()
    tab.open(f"{node.admin}/ui/client")
    tab.until("document.querySelector('#page[data-ready=none]')")
    assert "This address does not say which client:" in tab.text()


def test_the_list_of_clients_fits_a_phone_screen(node: RunningNode, tab: Browser) -> None:
    tab.look(width=390, height=844, dark=True)
    show(tab, node, "clients")
    tab.until("document.querySelector('main td')")
    look(tab, "clients-phone")
    assert tab.run("document.documentElement.scrollWidth") <= 390


def test_the_list_says_that_brokers_receive_no_metrics(tab: Browser, tmp_path: Path) -> None:
    with running_node(tmp_path, "--set", "kraft.telemetry.enable=false") as started:
        assert httpx.get(f"{started.admin}/v1/clients", timeout=30).status_code == 404
        show(tab, started, "clients")
        assert "kraft.telemetry.enable is false" in tab.text()
