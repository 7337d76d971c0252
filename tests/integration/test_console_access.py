"""The console's pages of users and permissions, in a real browser, at a node with an authorizer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from kraft.testing.cluster_thread import ClusterThread
from kraft.testing.pytest_plugin import StartCluster
from tests.capabilities import require_capability
from tests.integration.browser import Browser, browser
from tests.integration.console_browser import click, show, type_into


@pytest.fixture(scope="module")
def guarded(module_kraft_cluster: StartCluster) -> ClusterThread:
    require_capability("chromium")
    settings = {"kraft.admin.principal": "User:admin"}
    started = module_kraft_cluster(
        1, security="sasl_plaintext", authorizer=True, admin=True, users=["alice"], settings=settings
    )
    started.create_topic("orders")
    return started


@pytest.fixture(scope="module")
def tab(guarded: ClusterThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        started.look(width=1280, height=900, dark=False)
        yield started


def choose(tab: Browser, label: str, value: str) -> None:
    tab.run(
        f"(() => {{ const row = [...document.querySelectorAll('dialog label')].find(l => l.firstChild.data === "
        f"{json.dumps(label)}); const input = row.querySelector('select'); input.value = {json.dumps(value)}; "
        "input.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def sent(guarded: ClusterThread) -> int | None:
    outcomes: list[int | None] = []
    producer = Producer({**guarded.client_settings("librdkafka", "alice"), "log_level": 0})
    producer.produce("orders", b"x", on_delivery=lambda error, _: outcomes.append(error and error.code()))
    assert producer.flush(30) == 0
    return outcomes[0]


def test_the_console_adds_and_removes_a_user(guarded: ClusterThread, tab: Browser) -> None:
    show(tab, guarded.admin_url, "users", "No user has SCRAM")
    click(tab, "Add a user")
    type_into(tab, "dialog input[name=user]", "bob")
    type_into(tab, "dialog input[name=password]", "a secret of bob's")
    click(tab, "Save")
    tab.until("document.querySelector('main table')?.innerText.includes('bob')")
    assert "SCRAM-SHA-512" in tab.text()
    assert "secret" not in tab.text()
    click(tab, "Remove")
    type_into(tab, "dialog input[name=confirm]", "bob")
    click(tab, "Delete")
    tab.until("document.body.innerText.includes('No user has SCRAM')")
    assert tab.complaints == []


def test_an_acl_grants_access_until_it_is_removed(guarded: ClusterThread, tab: Browser) -> None:
    assert sent(guarded) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    show(tab, guarded.admin_url, "permissions", "There are no entries")
    click(tab, "Add an entry")
    type_into(tab, "dialog input[name=principal]", "User:alice")
    type_into(tab, "dialog input[name=resource_name]", "orders")
    choose(tab, "Operation", "WRITE")
    click(tab, "Add")
    tab.until(
        "document.querySelector('main table') && document.querySelector('main table').innerText.includes('alice')"
    )
    assert sent(guarded) is None
    click(tab, "Would it be allowed?")
    type_into(tab, "dialog input[name=principal]", "User:alice")
    type_into(tab, "dialog input[name=resource_name]", "orders")
    choose(tab, "Operation", "WRITE")
    click(tab, "Ask")
    entry = "Allowed by: User:alice allowed WRITE on TOPIC orders"
    tab.until(f"document.querySelector('dialog').innerText.includes('{entry}')")
    choose(tab, "Operation", "DELETE")
    click(tab, "Ask")
    tab.until("document.querySelector('dialog').innerText.includes('Refused')")
    click(tab, "Cancel")
    click(tab, "Remove")
    tab.until("document.querySelector('dialog')")
    tab.run("[...document.querySelectorAll('dialog button')].find(b => b.textContent === 'Remove').click()")
    tab.until("document.body.innerText.includes('There are no entries')")
    assert sent(guarded) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert tab.complaints == []


def test_removing_a_deny_acl_warns_that_access_is_granted(guarded: ClusterThread, tab: Browser) -> None:
    show(tab, guarded.admin_url, "permissions", "There are no entries")
    click(tab, "Add an entry")
    type_into(tab, "dialog input[name=principal]", "User:alice")
    type_into(tab, "dialog input[name=resource_name]", "secret-")
    choose(tab, "Operation", "READ")
    choose(tab, "Name is", "PREFIXED")
    choose(tab, "Is", "DENY")
    click(tab, "Add")
    tab.until("document.querySelector('main table')?.innerText.includes('alice')")
    click(tab, "Remove")
    tab.until("document.querySelector('dialog')")
    asked = tab.run("document.querySelector('dialog').innerText")
    assert "User:alice denied READ on TOPIC names that begin with secret-" in asked
    assert "It denies no more" in asked
    assert "refused from now on" not in asked
    tab.run("[...document.querySelectorAll('dialog button')].find(b => b.textContent === 'Remove').click()")
    tab.until("document.body.innerText.includes('There are no entries')")
    assert tab.complaints == []
