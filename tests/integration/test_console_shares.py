"""Share groups in the console, in a real browser, on one node."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.capabilities import require_capability
from tests.integration.axe import serious_faults
from tests.integration.browser import Browser, browser
from tests.integration.console_browser import click, type_into
from tests.integration.console_pages import make_topic, produce, show
from tests.integration.rest_node import RunningNode, running_node
from tests.integration.test_rest_shares import finish

TOPIC, GROUP = "jobs", "workers"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A share group that has finished 3 records of 8, and a consumer group."""
    require_capability("chromium")
    with running_node(tmp_path_factory.mktemp("shares")) as started:
        make_topic(started, TOPIC, 2)
        base = f"{started.admin}/v3/clusters/{started.cluster_id}"
        for kind, group in (("share-groups", GROUP), ("consumer-groups", "readers")):
            reset = {"to": "earliest", "topics": [{"topic_name": TOPIC}], "validate_only": False}
            assert httpx.post(f"{base}/{kind}/{group}/offsets:reset", json=reset, timeout=60).status_code == 200
        produce(started, TOPIC, [b"x"] * 3)
        finish(started, GROUP, TOPIC, 3).close()
        produce(started, TOPIC, [b"x"] * 5)
        yield started


@pytest.fixture(scope="module")
def tab(node: RunningNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        started.look(width=1280, height=900, dark=False)
        yield started


def rows(tab: Browser) -> list[list[str]]:
    found: list[list[str]] = tab.run(
        "[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    )
    return found


def test_the_list_of_groups_shows_share_groups_with_their_type_and_lag(node: RunningNode, tab: Browser) -> None:
    show(tab, node, "groups")
    tab.until("document.querySelectorAll('tbody tr').length === 2")
    assert [row[:6] for row in rows(tab)] == [
        ["readers", "empty", "classic", "0", "1", "8"],
        [GROUP, "empty", "share", "0", "1", "5"],
    ]
    links = tab.run("[...document.querySelectorAll('tbody tr td:first-child a')].map(a => a.getAttribute('href'))")
    assert links == ["/ui/group?id=readers", f"/ui/share-group?id={GROUP}"]
    assert tab.complaints == []


def test_the_page_of_a_share_group_shows_members_start_offsets_and_lag(node: RunningNode, tab: Browser) -> None:
    consumer = finish(node, GROUP, TOPIC, 5)
    show(tab, node, f"share-group?id={GROUP}")
    tab.until("document.querySelectorAll('table').length === 2 && document.querySelector('td[data-label=client]')")
    partitions, members = rows(tab)[:2], rows(tab)[2:]
    assert partitions == [[f"{TOPIC}-0", "8", "0", "", "1"], [f"{TOPIC}-1", "0", "0", "", "1"]]
    [member] = members
    assert (member[0], member[-2], member[-1]) == ("worker", TOPIC, f"{TOPIC}-0, {TOPIC}-1")
    assert "simple" in tab.text()
    assert serious_faults(tab) == []
    consumer.close()
    tab.until("document.body.innerText.includes('No consumer is a member now.')")
    assert tab.complaints == []


def test_the_console_resets_and_deletes_a_share_group(node: RunningNode, tab: Browser) -> None:
    show(tab, node, f"share-group?id={GROUP}")
    click(tab, "Reset start offsets")
    assert "shift" not in tab.run("[...document.querySelector('dialog select').options].map(o => o.value)")
    click(tab, "Preview")
    send = "[...document.querySelectorAll('dialog button')].find(b => b.type === 'submit')"
    tab.until(f"document.querySelector('dialog table') && !{send}.disabled")
    tab.run(f"{send}.click()")
    tab.until(f"!document.querySelector('dialog') && document.querySelector('td').innerText === '{TOPIC}-0'")
    tab.until("document.querySelectorAll('td')[1].innerText === '0'")
    assert rows(tab)[0][1:3] == ["0", "8"]
    click(tab, "Delete")
    type_into(tab, "dialog input[name=confirm]", GROUP)
    tab.run(f"{send}.click()")
    tab.until("location.pathname === '/ui/groups' && document.querySelector('#page[data-ready=groups]')")
    tab.until("document.querySelectorAll('tbody tr').length === 1")
    assert tab.complaints == []


def test_an_address_without_a_share_group_shows_what_is_missing(node: RunningNode, tab: Browser) -> None:
    tab.open(f"{node.admin}/ui/share-group")
    tab.until("document.querySelector('#page[data-ready=none]')")
    assert "This address does not say which share group:" in tab.text()


def test_the_page_of_a_share_group_fits_a_phone_screen(node: RunningNode, tab: Browser) -> None:
    base = f"{node.admin}/v3/clusters/{node.cluster_id}/share-groups/{GROUP}/offsets:reset"
    reset = {"to": "latest", "topics": [{"topic_name": TOPIC}], "validate_only": False}
    assert httpx.post(base, json=reset, timeout=60).status_code == 200
    tab.look(width=390, height=844, dark=False)
    show(tab, node, f"share-group?id={GROUP}")
    tab.until("document.querySelector('main td')")
    assert tab.run("document.documentElement.scrollWidth") <= 390
