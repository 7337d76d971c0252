"""The console in a real browser, on three nodes of which one is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from jepsen.three_nodes import until
from tests.capabilities import require_capability
from tests.integration.axe import serious_faults
from tests.integration.browser import Browser, browser
from tests.integration.console_browser import click, show, type_into
from tests.integration.rest_cluster import Started


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require_capability("chromium")
    with browser(tmp_path_factory.mktemp("profile")) as started:
        started.look(width=1280, height=900, dark=False)
        yield started


HOSTILE = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
PAGES = {
    "overview": "brokers up",
    "topics": "console-topic",
    "topic?name=console-topic": "offsets in use",
    "topic?name=console-topic&tab=configuration": "retention.ms",
    "topic?name=console-topic&tab=consumers": HOSTILE,
    "messages?topic=console-topic&from=earliest": HOSTILE,
    "groups": HOSTILE,
    f"group?id={quote(HOSTILE)}": "Last commit",
    "brokers": "127.0.0.1",
    "broker?id=1": "Log directories",
    "quorum": "Voters",
    "moves": "No partition is being moved",
    "config": "Cluster configuration",
    "transactions": "No transactional producer",
    "users": "No user has SCRAM",
    "permissions": "authorizer",
    "quotas": "reports",
}
"""Addresses, and what each page must show. In the search for it, text counts, not elements."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    require_capability("chromium")
    started = Started(tmp_path_factory.mktemp("console") / "c")
    try:
        fill(started)
        yield started
    finally:
        started.process.send_signal(signal.SIGINT)
        started.process.wait(60)
        assert started.process.stdout is not None
        started.process.stdout.close()


def fill(cluster: Started) -> None:
    base = cluster.base(1)
    with httpx.Client(timeout=60, headers={"Content-Type": "application/json"}) as http:
        topic = {"topic_name": "console-topic", "partitions_count": 3, "replication_factor": 3}
        assert http.post(f"{base}/topics", json=topic).status_code == 201
        values = [HOSTILE, *({"n": n, "said": "hello"} for n in range(20))]
        body = "".join(json.dumps({"value": {"type": "JSON", "data": value}}) for value in values)
        told = http.post(f"{base}/topics/console-topic/records", content=body)
        assert [json.loads(line)["error_code"] for line in told.text.splitlines()] == [200] * len(values), told.text
        first = {"to": "earliest", "topics": [{"topic_name": "console-topic"}], "validate_only": False}
        answers = []

        def moved() -> bool:
            answers.append(http.post(f"{base}/consumer-groups/{quote(HOSTILE, safe='')}/offsets:reset", json=first))
            return answers[-1].status_code == 200

        with suppress(TimeoutError):
            until(moved, "the offsets are moved", 20)
        assert answers[-1].status_code == 200, answers[-1].text
        quota = {"entity": {"client_id": "reports"}, "set": {"consumer_byte_rate": 1048576}}
        assert http.post(f"{cluster.admins[1]}/v1/quotas", json=quota).status_code == 200


@pytest.mark.parametrize("page", PAGES)
def test_a_page_states_its_purpose_and_escapes_text(cluster: Started, tab: Browser, page: str) -> None:
    show(tab, cluster.admins[1], page, PAGES[page])
    assert not tab.run("document.querySelector('.note.bad') && document.querySelector('.note.bad').innerText")
    assert tab.run("document.title") != "owned"
    assert tab.run("document.querySelectorAll('main img, main script').length") == 0
    raw = "[...document.querySelectorAll('main a')].filter(a => /[/]v[13][/]/.test(a.href)).map(a => a.href)"
    assert tab.run(raw) == [], "links lead to pages, not to JSON"
    assert tab.complaints == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_serious_issue_on_any_page(cluster: Started, tab: Browser, dark: bool) -> None:
    faults = {}
    tab.look(width=1280, height=900, dark=dark)
    try:
        for page, expected in PAGES.items():
            show(tab, cluster.admins[1], page, expected)
            faults[page] = serious_faults(tab)
        show(tab, cluster.admins[1], "topics", "console-topic")
        click(tab, "Create a topic")
        tab.until("document.querySelector('dialog[open]')")
        faults["a dialog"] = serious_faults(tab)
        tab.open(f"{cluster.admins[1]}/docs")
        tab.until("document.querySelector('.tag details')")
        tab.run("[...document.querySelectorAll('.tag')].forEach(tag => tag.querySelector('details').open = true)")
        faults["docs"] = serious_faults(tab)
    finally:
        tab.look(width=1280, height=900, dark=False)
    assert {page: found for page, found in faults.items() if found} == {}


def test_the_console_creates_a_topic_and_deletes_it_once_its_name_is_typed(cluster: Started, tab: Browser) -> None:
    show(tab, cluster.admins[1], "topics", "console-topic")
    click(tab, "Create a topic")
    type_into(tab, "dialog input[name=topic]", "made-here")
    click(tab, "Create")
    tab.until("document.querySelector('main table').innerText.includes('made-here')")
    show(tab, cluster.admins[1], "topic?name=made-here", "Partitions")
    click(tab, "Delete")
    delete = "[...document.querySelectorAll('dialog button')].find(b => b.type === 'submit')"
    assert tab.run(f"{delete}.disabled")
    type_into(tab, "dialog input[name=confirm]", "made-here")
    tab.run(f"{delete}.click()")
    tab.until("location.pathname === '/ui/topics' && document.querySelector('#page[data-ready=topics]')")
    tab.until("!document.querySelector('main table').innerText.includes('made-here')")
    assert tab.complaints == []


def test_the_console_resets_offsets_after_a_preview(cluster: Started, tab: Browser) -> None:
    show(tab, cluster.admins[1], f"group?id={quote(HOSTILE)}", "21")
    click(tab, "Reset offsets")
    tab.run(
        "(() => { const to = document.querySelector('dialog select'); to.value = 'latest';"
        " to.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    apply = "[...document.querySelectorAll('dialog button')].find(b => b.type === 'submit')"
    assert tab.run(f"{apply}.disabled")
    click(tab, "Preview")
    tab.until(f"document.querySelector('dialog table') && !{apply}.disabled")
    tab.run(f"{apply}.click()")
    tab.until("!document.querySelector('dialog')")
    tab.until("[...document.querySelectorAll('.tile')].some(t => /^0\\s+records behind/.test(t.innerText))")
    assert tab.complaints == []


def test_every_page_renders_while_a_node_is_down(cluster: Started, tab: Browser) -> None:
    os.kill(cluster.pid(3), signal.SIGKILL)
    until(lambda: "brokers_down" in cluster.codes(1), "broker 3 is seen down")
    for page, expected in PAGES.items():
        show(tab, cluster.admins[1], page, expected)
    for dark in (True, False):
        tab.look(width=1280, height=900, dark=dark)
        for page in ("overview", "brokers", "quorum", "topic?name=console-topic"):
            show(tab, cluster.admins[1], page, "attention" if page == "overview" else PAGES[page])
            assert serious_faults(tab) == [], (page, dark)
    assert tab.complaints == []
    pictures = os.environ.get("KRAFT_CONSOLE_PICTURES")
    if pictures:
        photograph(tab, cluster.admins[1], Path(pictures))


def photograph(tab: Browser, admin: str, directory: Path) -> None:
    """Every page in light and dark, and narrow as on a phone."""
    for kind, (width, height, dark) in {
        "light": (1280, 900, False),
        "dark": (1280, 900, True),
        "phone": (390, 844, True),
    }.items():
        tab.look(width=width, height=height, dark=dark)
        for page, expected in PAGES.items():
            show(tab, admin, page, expected)
            name = page.partition("?")[0] + ("-" + page.rpartition("tab=")[2] if "tab=" in page else "")
            tab.photograph(directory / f"console-{name}-{kind}.png")
