"""Lists, quotas and the telephone's layout of the console, in a real browser, on one node."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from tests.capabilities import require_capability
from tests.integration.browser import Browser, browser
from tests.integration.console_pages import choose, make_topic, press, produce, show
from tests.integration.rest_node import RunningNode, running_node

TOPIC = "a-topic-with-a-rather-long-name"
GROUPS = {"small": 3, "large": 0, "middle": 1}
"""Offsets that groups have committed, of 5 records."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    require_capability("chromium")
    with running_node(tmp_path_factory.mktemp("lists")) as started:
        make_topic(started, TOPIC, 2)
        produce(started, TOPIC, [b"x"] * 5)
        for group, offset in GROUPS.items():
            body = {"to": "offset", "value": offset, "topics": [{"topic_name": TOPIC}], "validate_only": False}
            url = f"{started.admin}/v3/clusters/{started.cluster_id}/consumer-groups/{group}/offsets:reset"
            assert httpx.post(url, json=body, timeout=60).status_code == 200
        yield started


@pytest.fixture(scope="module")
def tab(node: RunningNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(autouse=True)
def wide(tab: Browser) -> None:
    tab.look(width=1280, height=900, dark=False)


def names(tab: Browser) -> list[str]:
    found: list[str] = tab.run("[...document.querySelectorAll('tbody tr')].map(row => row.cells[0].innerText)")
    return found


def type_into(tab: Browser, name: str, value: str) -> None:
    tab.run(
        f"(f => {{ f.value = {json.dumps(value)}; f.dispatchEvent(new Event('input', {{ bubbles: true }})); }})"
        f"(document.querySelector('dialog input[name={name}]'))"
    )


def send(tab: Browser) -> None:
    tab.run("document.querySelector('dialog button[type=submit]').click()")
    tab.until("!document.querySelector('dialog')")


def test_groups_are_sorted_by_lag_and_by_the_clicked_column(node: RunningNode, tab: Browser) -> None:
    show(tab, node, "groups")
    assert names(tab) == ["large", "middle", "small"]
    assert "3 groups, 11 records behind in all" in tab.text()
    press(tab, "total lag")
    tab.until("location.search.includes('sort=total_lag') && document.querySelector('td').innerText === 'small'")
    assert names(tab) == ["small", "middle", "large"]
    assert tab.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "ascending"
    press(tab, "group")
    tab.until("document.querySelector('td').innerText === 'large'")
    assert names(tab) == ["large", "middle", "small"]


def test_the_pages_of_sorted_groups_contain_every_group(node: RunningNode) -> None:
    url: str | None = f"{node.admin}/v3/clusters/{node.cluster_id}/consumer-groups/-/lag-summary"
    url = f"{url}?sort=-total_lag&page_size=1"
    found = []
    while url is not None:
        answer = httpx.get(url, timeout=30)
        assert answer.headers["x-total-count"] == "3"
        assert answer.json()["total_lag"] == 11
        found += [each["consumer_group_id"] for each in answer.json()["data"]]
        url = answer.json()["metadata"]["next"]
    assert found == ["large", "middle", "small"]


def test_a_quota_of_a_user_and_client_id_is_set_shown_and_removed(node: RunningNode, tab: Browser) -> None:
    show(tab, node, "quotas")
    press(tab, "Set a quota")
    assert not tab.run("document.querySelector('dialog input[name=client]').checkVisibility()")
    choose(tab, "For", "user client_id")
    for name, value in (("entity", "alice"), ("client", "reports"), ("limit", "1000")):
        type_into(tab, name, value)
    send(tab)
    tab.until("document.querySelector('td')")
    assert names(tab) == ["user alice, client id reports"]
    listed = httpx.get(f"{node.admin}/v1/quotas", timeout=30).json()["data"]
    assert listed == [{"entity": {"client_id": "reports", "user": "alice"}, "limits": {"producer_byte_rate": 1000.0}}]
    press(tab, "Remove")
    send(tab)
    tab.until("document.querySelector('main').innerText.includes('Nobody is limited.')")


def test_the_broker_list_shows_disks(node: RunningNode, tab: Browser) -> None:
    show(tab, node, "brokers")
    tab.until("/%/.test(document.querySelector('td[data-label=\"disk used\"]').innerText)")
    assert "B" in tab.run("document.querySelector('td[data-label=\"disk free\"]').innerText")


@pytest.mark.parametrize("page", ["topics", "groups", "brokers", "broker?id=1", f"topic?name={TOPIC}", "config"])
def test_every_page_fits_a_phone_screen(node: RunningNode, tab: Browser, page: str) -> None:
    tab.look(width=390, height=844, dark=False)
    show(tab, node, page)
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    assert tab.run("[...document.querySelectorAll('.logo, #elsewhere a')].every(each => each.checkVisibility())")
    inside = "(box => box.left >= 0 && box.right <= innerWidth)"
    assert tab.run(f"{inside}(document.querySelector('.menu [aria-current]').getBoundingClientRect())")


def test_a_topic_takes_four_lines_on_a_phone_screen(node: RunningNode, tab: Browser) -> None:
    tab.look(width=390, height=844, dark=False)
    show(tab, node, "topics")
    heights = tab.run("[...document.querySelectorAll('tbody tr')].map(row => row.getBoundingClientRect().height)")
    assert max(heights) < 115
