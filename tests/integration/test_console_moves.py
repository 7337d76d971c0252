"""The console moves partitions, in a real browser, on three nodes: a plan, a throttle, progress, and the way back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from jepsen.three_nodes import until
from tests.capabilities import require_capability
from tests.integration.browser import Browser, browser
from tests.integration.throttled import TOPIC, AdminCluster, controller, fill

RECORDS = 300
REMAINING = "[...document.querySelectorAll('.tile')].find(t => t.innerText.includes('remaining'))?.innerText"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCluster]:
    require_capability("chromium")
    with AdminCluster(tmp_path_factory.mktemp("three"), nodes=3, admin=True) as cluster:
        cluster.asked = controller(cluster)
        cluster.create(TOPIC, {"0": [3, 1], "1": [3, 1], "2": [3, 1]})
        fill(cluster, RECORDS, 3)
        yield cluster


@pytest.fixture(scope="module")
def tab(three: AdminCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        started.look(width=1280, height=900, dark=False)
        yield started


def show(tab: Browser, three: AdminCluster, page: str) -> None:
    tab.open(f"{three.nodes[1].admin_url}/ui/{page}")
    tab.until(f"document.querySelector('#page[data-ready={page.partition('?')[0]}]')")


def press(tab: Browser, text: str) -> None:
    wanted = f"[...document.querySelectorAll('main button')].find(b => b.innerText === {json.dumps(text)})"
    tab.until(wanted)
    tab.run(f"{wanted}.click()")
    tab.until("document.querySelector('dialog')")


def send(tab: Browser) -> None:
    tab.until("document.querySelector('dialog button[type=submit]:not(:disabled)')")
    tab.run("document.querySelector('dialog button[type=submit]').click()")
    tab.until("!document.querySelector('dialog')")


def enter(tab: Browser, name: str, value: str) -> None:
    tab.run(
        f"(i => {{ i.value = {json.dumps(value)}; i.dispatchEvent(new Event('input', {{bubbles: true}}));"
        f" if (i.onchange) i.onchange(); }})(document.querySelector('dialog input[name={name}]'))"
    )


def shows(tab: Browser, text: str) -> None:
    tab.until(f"document.querySelector('main').innerText.includes({json.dumps(text)})")


def remove_throttle(tab: Browser, three: AdminCluster) -> None:
    shows(tab, "Finished, and a throttle is still set: remove it.")
    press(tab, "Remove the throttle")
    send(tab)
    tab.until("!document.querySelector('main').innerText.includes('throttle is still set')")
    until(lambda: not three.throttled_keys(1), "keys of the throttle stay")


def test_only_the_displayed_plan_can_be_submitted(three: AdminCluster, tab: Browser) -> None:
    show(tab, three, "broker?id=3")
    press(tab, "Decommission")
    said = "document.querySelector('dialog').innerText"
    is_ready = "!document.querySelector('dialog [type=submit]').disabled"
    tab.run(
        "{ const real = window.fetch; window.fetch = async (path, how) => { "
        "if (/bytes_per_second=1048576$/.test(path)) await new Promise(go => { window.release = go; }); "
        "if (/bytes_per_second=3145728$/.test(path)) throw new TypeError('cut off'); return real(path, how); }; }"
    )
    enter(tab, "rate", "1")
    tab.until("window.release")
    assert not tab.run(is_ready)
    enter(tab, "rate", "2")
    tab.until(f"{said}.includes('in 8 s or more') && {is_ready}")
    tab.run("window.release()")
    tab.run("new Promise(go => setTimeout(go, 500))")
    assert tab.run(f"{said}.includes('in 8 s or more') && {is_ready}")
    enter(tab, "rate", "3")
    tab.until(f"{said}.includes('This node does not answer')")
    assert not tab.run(is_ready)


def test_a_decommissioning_is_throttled_monitored_and_cancelled(three: AdminCluster, tab: Browser) -> None:
    before = three.replicas(1)
    show(tab, three, "broker?id=3")
    press(tab, "Decommission")
    tab.until("document.querySelector('dialog').innerText.includes('3 replicas, 14 MiB, would be copied')")
    enter(tab, "rate", "1")
    tab.until("document.querySelector('dialog').innerText.includes('in 15 s or more')")
    send(tab)
    shows(tab, "draining · 3 replicas left, 3 moving, 0 blocked")
    shows(tab, "1.0 MiB/s")
    tab.until(f"/\\d+ (s|min)/.test({REMAINING})")
    press(tab, "Cancel the decommissioning")
    send(tab)
    shows(tab, "wanted active")
    until(lambda: three.progress(1)["phase"] == "idle", "the throttle stays, or moves do")
    assert three.replicas(1) == before
    until(lambda: not three.throttled_keys(1), "keys of the throttle stay")
    assert tab.complaints == []


def test_topics_are_rebalanced_with_a_throttle_that_is_removed_afterwards(three: AdminCluster, tab: Browser) -> None:
    show(tab, three, "moves")
    press(tab, "Spread evenly")
    tab.until("document.querySelector('dialog').innerText.includes('replicas,')")
    enter(tab, "rate", "1")
    send(tab)
    shows(tab, f"{TOPIC}-")
    shows(tab, "left to copy")
    press(tab, "Change the throttle")
    enter(tab, "rate", "1000")
    send(tab)
    remove_throttle(tab, three)
    shows(tab, "No partition is being moved.")
    held = [broker for replicas in three.replicas(1).values() for broker in replicas]
    assert sorted(map(held.count, (1, 2, 3))) == [2, 2, 2]
    assert tab.complaints == []


def test_the_console_moves_a_partition_and_cancels_the_move(three: AdminCluster, tab: Browser) -> None:
    before = three.replicas(1)
    [target] = {1, 2, 3} - {*before[0]}
    show(tab, three, "moves")
    press(tab, "Move a partition")
    for name, value in (("topic", TOPIC), ("partition", "0"), ("brokers", f"{before[0][0]} {target}"), ("rate", "1")):
        enter(tab, name, value)
    send(tab)
    three.call(1, "PUT", "/v1/reassignments/throttle", {"bytes_per_second": 1000})  # It does not end by itself.
    press(tab, "Cancel")
    send(tab)
    shows(tab, "No partition is being moved.")
    until(lambda: three.progress(1)["phase"] == "idle", "the throttle stays")
    assert three.replicas(1) == before
    press(tab, "Move a partition")
    for name, value in (("topic", "nothing"), ("brokers", "1")):
        enter(tab, name, value)
    tab.run("document.querySelector('dialog button[type=submit]').click()")
    tab.until("document.querySelector('dialog').innerText.includes('1 of 1 moves were refused: nothing-0')")
    assert tab.complaints == []
