"""Searching on the console's page of messages, in a real browser, on one node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from confluent_kafka import Producer

from tests.capabilities import require_capability
from tests.integration.browser import Browser, browser
from tests.integration.console_pages import make_topic, press, records, show
from tests.integration.rest_node import RunningNode, running_node

MANY = 150_000
EXACT = 9007199254740993
ENDED = "document.querySelector('.note.good, .note.bad, .note.warn')"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    require_capability("chromium")
    with running_node(tmp_path_factory.mktemp("search"), "--set", "transaction.state.log.num.partitions=1") as started:
        make_topic(started, "orders", 3)
        producer = Producer({"bootstrap.servers": started.kafka, "partitioner": "murmur2_random"})
        for number in range(30):
            value = {"order": {"id": EXACT if number == 7 else number, "total": number / 4}, "note": "tea " * 60}
            producer.produce("orders", json.dumps(value), f"customer-{number}", headers=[("trace", f"t-{number}")])
        producer.produce("orders", b"=1+1", "formula", partition=0)
        assert producer.flush(30) == 0
        cut = Producer({"bootstrap.servers": started.kafka, "transactional.id": "cut"})
        cut.init_transactions(30)
        cut.begin_transaction()
        cut.produce("orders", "taken back", "customer-x", partition=0)
        assert cut.flush(30) == 0
        cut.abort_transaction(30)
        make_topic(started, "large", 1)
        for number in range(MANY):
            producer.produce("large", str(number), partition=0)
            if number % 10_000 == 0:
                producer.flush(30)
        assert producer.flush(30) == 0
        yield started


@pytest.fixture(scope="module")
def tab(node: RunningNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        started.look(width=1280, height=900, dark=False)
        yield started


def search(tab: Browser, node: RunningNode, topic: str = "orders", **parameters: str) -> None:
    show(tab, node, "messages?" + urlencode({"topic": topic, "mode": "search", **parameters}))


def saved(tab: Browser, text: str) -> str:
    """What a button offers as a file."""
    tab.run("window.blobs = []; URL.createObjectURL = blob => { window.blobs.push(blob); return '#'; };")
    press(tab, text)
    tab.until("window.blobs.length")
    return str(tab.run("window.blobs[0].text()"))


def test_search_hits_are_shown_expanded_highlighted_and_exported(node: RunningNode, tab: Browser) -> None:
    search(tab, node)
    tab.run("document.querySelector('input[name=wanted]').value = 'CUSTOMER-'")
    press(tab, "Search")
    tab.until(ENDED)
    assert len(records(tab)) == 31
    assert [record for record in records(tab) if "aborted" in record]
    assert "q=CUSTOMER-" in tab.run("location.search")
    assert "31 found" in tab.text()
    tab.run("document.querySelector('td details').open = true")
    assert '"order": {' in tab.run("document.querySelector('td details pre').innerText")
    exported = [json.loads(line) for line in saved(tab, "Export JSON lines").splitlines()]
    assert len(exported) == 31
    assert any(str(EXACT) in record["value"]["data"] for record in exported)
    assert tab.complaints == []


def test_a_json_path_is_compared_exactly(node: RunningNode, tab: Browser) -> None:
    search(tab, node, kind="where", q=f".order.id == {EXACT}")
    tab.until(ENDED)
    assert len(records(tab)) == 1
    assert str(EXACT) in tab.text()
    search(tab, node, kind="where", q="order == 5")
    tab.until("document.querySelector('.note.bad')")
    assert "“For” must look like .order.id == 5" in tab.text()


def test_a_key_is_searched_only_in_its_partition_and_the_page_reports_that(node: RunningNode, tab: Browser) -> None:
    search(tab, node, kind="key", q="customer-12")
    tab.until(ENDED)
    tab.until("document.querySelectorAll('td[data-label=record]').length === 1")
    assert "where the default partitioner puts this key" in tab.text()
    assert "everywhere" not in tab.run("location.search")


def test_consumed_text_becomes_no_formula_in_a_spreadsheet(node: RunningNode, tab: Browser) -> None:
    search(tab, node, q="=1+1", part="value")
    tab.until("document.querySelectorAll('td[data-label=record]').length === 1")
    heads, row = saved(tab, "Export CSV").splitlines()
    assert heads == "partition,offset,timestamp,key,value,headers,transaction"
    assert row.startswith('"0","')
    assert '"formula","\'=1+1"' in row


def test_a_search_is_cancelled_and_the_next_one_starts(node: RunningNode, tab: Browser) -> None:
    search(tab, node, topic="large", q="nowhere")
    tab.until("document.querySelector('[role=progressbar]').getAttribute('aria-valuenow') > 0")
    press(tab, "Cancel")
    tab.until("document.querySelector('.note.warn')")
    assert "Cancelled." in tab.text()
    tab.run("document.querySelector('input[name=wanted]').value = '77'")
    press(tab, "Search")
    tab.until("document.querySelectorAll('td[data-label=record]').length === 100")
    tab.until("document.body.innerText.includes('There may be more.')")
    assert tab.complaints == []


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "“For” is empty: type what to search for."),
        ({"kind": "header", "q": "t-1"}, "“Header” is empty: type the name of the header whose value is searched."),
        ({"q": "tea", "partitions": "a"}, "“Partitions” takes numbers with commas between them, such as 0,3."),
        ({"q": "tea", "partitions": "99999999999"}, "“Partitions”: String should match pattern"),
        ({"q": "tea", "partitions": "4294967295"}, "“Partitions” holds a number that is too large."),
        (
            {"q": "tea", "between": "offsets", "from_offset": "9999999999999999999"},
            "“From offset”: Input should be less",
        ),
    ],
)
def test_form_errors_use_the_labels_of_the_form(
    node: RunningNode, tab: Browser, asked: dict[str, str], told: str
) -> None:
    search(tab, node, **asked)
    if "q" not in asked:
        press(tab, "Search")
    tab.until("document.querySelector('.note.bad')")
    assert told in tab.run("document.querySelector('.note.bad').innerText")
