"""What the console's pages keep and show while they are looked at, in a real browser, on one node."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.capabilities import require_capability
from tests.integration.browser import Browser, browser
from tests.integration.console_pages import choose, make_topic, press, produce, records, show
from tests.integration.rest_node import RunningNode, running_node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    require_capability("chromium")
    arguments = ("--set", "transaction.state.log.num.partitions=1")
    with running_node(tmp_path_factory.mktemp("pages"), *arguments) as started:
        yield started


@pytest.fixture(scope="module")
def tab(node: RunningNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        started.look(width=1280, height=900, dark=False)
        yield started


PARTITIONS = 20
ABORTED, OPEN = "aborted-value", "open-value"


def asked(path: str) -> str:
    """How often a page has asked for a path."""
    return f"performance.getEntriesByType('resource').filter(e => e.name.includes({json.dumps(path)})).length"


def until_asked_again(tab: Browser, path: str) -> None:
    seen = int(tab.run(asked(path)))
    tab.until(f"{asked(path)} > {seen + 1}")  # The one before it has been answered and drawn by then.


def test_the_newest_records_are_shown_whatever_their_size(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "large", 1)
    produce(node, "large", [bytes([97]) * 20_000] * 201)
    show(tab, node, "messages?topic=large")
    assert records(tab) == [f"0:{offset}" for offset in range(200, 100, -1)]


def test_loading_more_records_shows_no_record_twice(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "read-on", 1)
    produce(node, "read-on", [b"%d" % number for number in range(250)])
    show(tab, node, "messages?topic=read-on&from=earliest")
    button = "[...document.querySelectorAll('button')].find(b => b.innerText === 'Read on')"
    twice = f"(b => {{ b.click(); b.click(); }})({button})"
    rows = "document.querySelectorAll('td[data-label=record]').length"
    tab.run(twice)
    tab.until(f"{rows} >= 200")
    tab.run(twice)
    tab.until(f"{rows} >= 250")
    assert records(tab) == [f"0:{offset}" for offset in range(249, -1, -1)]


def test_a_late_response_does_not_replace_a_list_requested_after_it(node: RunningNode, tab: Browser) -> None:
    for name in ("late-one", "late-two"):
        make_topic(node, name, 1)
    show(tab, node, "topics")
    tab.run(
        "{ const real = window.fetch; window.fetch = async (path, how) => { "
        "if (/topics\\?/.test(path) && !/[?&]q=/.test(path)) await new Promise(go => { window.release = go; }); "
        "return real(path, how); }; }"
    )
    tab.until("window.release")
    tab.run("(f => { f.value = 'late-two'; f.oninput(); })(document.querySelector('input[name=filter]'))")
    tab.until("document.querySelectorAll('tbody tr').length === 1")
    tab.run(
        "{ window.most = 1; new MutationObserver(() => { window.most = Math.max(window.most, "
        "document.querySelectorAll('tbody tr').length); }).observe(document.body, { childList: true, subtree: true }); "
        "window.release(); }"
    )
    until_asked_again(tab, "/topics?")
    assert tab.run("window.most") == 1


def test_a_typed_filter_is_cleared_on_the_next_page(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "left-early", 1)
    show(tab, node, "topics?q=left-early")
    address = tab.run(
        "(async () => { const at = each => document.querySelector(each); at('input[name=filter]').oninput(); "
        "at('td a').click(); await new Promise(go => setTimeout(go, 500)); "
        "return location.pathname + location.search; })()"
    )
    assert address == "/ui/topic?name=left-early"


def test_a_topic_view_tails_every_partition_and_seeks_an_offset_in_each(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "many", PARTITIONS)
    show(tab, node, "messages?topic=many")
    press(tab, "Follow")
    for partition in range(PARTITIONS):
        produce(node, "many", [b"first"] + ([b"second"] if partition == 3 else []), partition)
    shown = "document.querySelectorAll('td[data-label=record]').length"
    tab.until(f"{shown} === {PARTITIONS + 1}")
    assert {record.partition(":")[0] for record in records(tab)} == {str(index) for index in range(PARTITIONS)}
    show(tab, node, "messages?topic=many&from=offset&offset=1")
    assert records(tab) == ["3:1"]
    assert "partition 0 (No record has offset 1" in tab.text()
    assert tab.complaints == []


def test_a_tailed_topic_that_is_recreated_is_read_from_its_start_with_a_notice(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "anew", 1)
    produce(node, "anew", [b"of the earlier topic"], 0)
    show(tab, node, "messages?topic=anew")
    assert records(tab) == ["0:0"]
    admin = AdminClient({"bootstrap.servers": node.kafka})
    admin.delete_topics(["anew"])["anew"].result(30)
    make_topic(node, "anew", 2)
    for partition in range(2):
        produce(node, "anew", [b"of the later topic", b"and one more"], partition)
    assert "recreated" not in tab.text()
    press(tab, "Follow")
    tab.until("document.querySelectorAll('td[data-label=record]').length === 5")
    assert sorted(records(tab)) == ["0:0", "0:0", "0:1", "1:0", "1:1"]
    assert "The topic was deleted and recreated." in tab.text()
    produce(node, "anew", [b"goes on"], 1)
    tab.until("document.querySelectorAll('td[data-label=record]').length === 6")
    press(tab, "Read")
    tab.until("!document.querySelector('main').textContent.includes('recreated')")
    assert tab.complaints == []


def test_records_of_aborted_and_open_transactions_are_marked_and_can_be_hidden(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "transactions", 1)
    producer = Producer({"bootstrap.servers": node.kafka, "transactional.id": "pages"})
    producer.init_transactions(30)
    for value in (ABORTED, "committed-value", OPEN):
        producer.begin_transaction()
        producer.produce("transactions", value)
        assert producer.flush(30) == 0
        if value == ABORTED:
            producer.abort_transaction(30)
        elif value != OPEN:
            producer.commit_transaction(30)
    show(tab, node, "messages?topic=transactions")
    assert records(tab) == ["0:4 open", "0:2", "0:0 aborted"]
    choose(tab, "Isolation", "committed")
    tab.until("document.querySelectorAll('td[data-label=record]').length === 1")
    assert records(tab) == ["0:2"]
    assert "isolation=committed" in tab.run("location.search")
    producer.abort_transaction(30)


def test_a_refresh_keeps_scroll_position_focus_and_selection(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "wide", 40)
    show(tab, node, "topic?name=wide")
    tab.run(
        "(() => { const box = document.querySelector('.scroll'); box.scrollTop = 300;"
        " window.kept = [...box.querySelectorAll('tbody tr')][20]; window.kept.querySelector('a').focus();"
        " box.scrollTop = 300; getSelection().selectAllChildren(window.kept.cells[0]); })()"
    )
    produce(node, "wide", [b"new"] * 3, 20)
    until_asked_again(tab, "replica-status")
    tab.until("window.kept.cells[5].innerText === '3'")
    assert tab.run("document.querySelector('.scroll').scrollTop") == 300
    assert tab.run("window.kept.isConnected && window.kept.contains(document.activeElement)")
    assert tab.run("getSelection().toString()") == "20"
    assert tab.complaints == []


def test_a_topic_page_shows_its_groups_and_their_lag(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "read", 2)
    produce(node, "read", [b"a"] * 5)
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "readers-of-it"})
    consumer.commit(offsets=[TopicPartition("read", 0, 2)], asynchronous=False)
    consumer.close()
    show(tab, node, "topic?name=read&tab=consumers")
    shown = tab.run("[...document.querySelectorAll('tbody td')].map(cell => cell.innerText)")
    assert shown == ["readers-of-it", "empty", "0", "0", "1", "3"]
    assert tab.complaints == []


def test_the_topic_list_is_sorted_by_size_and_contains_empty_topics(node: RunningNode, tab: Browser) -> None:
    for name, count in (("held-a", 1), ("held-b", 0), ("held-c", 4)):
        make_topic(node, name, 1)
        produce(node, name, [b"v"] * count)
    names = "[...document.querySelectorAll('td[data-label=name]')].map(cell => cell.innerText).join()"
    show(tab, node, "topics?q=held-&sort=-records")
    assert tab.run(names) == "held-c,held-a,held-b"
    choose(tab, "Show", "true")
    tab.until(f"{names} === 'held-b'")
    assert "empty=true" in tab.run("location.search")
    assert tab.complaints == []


def test_a_refresh_does_not_move_the_focused_row(node: RunningNode, tab: Browser) -> None:
    show(tab, node, "quotas")
    script = """(async () => {
        const { patch, table, el } = await import('/assets/lib.js'), place = el('div');
        const draw = names => patch(place, table([['name']], names.map(name => [el('a', { href: '#' }, name)])));
        const names = () => [...place.querySelectorAll('td')].map(cell => cell.innerText).join('');
        const seen = [];
        document.body.append(place);
        draw(['a', 'b', 'c']); place.querySelectorAll('a')[1].focus();
        draw(['c', 'x', 'a', 'b']); seen.push(names(), document.activeElement.innerText);
        document.activeElement.blur();
        draw(['c', 'x', 'a']); seen.push(names());
        draw([]); draw(['z']); seen.push(names());
        return seen;
    })()"""
    assert tab.run(script) == ["abcx", "b", "cxa", "z"]


def test_a_missing_group_is_reported_once(node: RunningNode, tab: Browser) -> None:
    tab.open(f"{node.admin}/ui/group?id=nobody")
    tab.until("document.querySelector('.note.bad')")
    until_asked_again(tab, "groups/nobody/progress")
    assert tab.run("document.querySelectorAll('h1').length") == 1
    assert tab.run("[...document.querySelectorAll('main button')].filter(b => b.checkVisibility()).length") == 0
    assert "group nobody does not exist" in tab.text()


@pytest.mark.parametrize("name", ["constructor", "toString", "__proto__", "nothing"])
def test_an_address_without_a_page_shows_an_error(node: RunningNode, tab: Browser, name: str) -> None:
    tab.open(f"{node.admin}/ui/{name}")
    tab.until("document.querySelector('#page[data-ready=none]')")
    assert "There is no such page." in tab.text()
    assert tab.complaints == []


@pytest.mark.parametrize(
    ("address", "what", "listed"),
    [
        ("topic", "topic", "topics"),
        ("messages?partition=0", "topic", "topics"),
        ("group", "group", "groups"),
        ("broker?id=", "broker", "brokers"),
    ],
)
def test_an_address_without_a_name_shows_what_is_missing(
    node: RunningNode, tab: Browser, address: str, what: str, listed: str
) -> None:
    tab.open(f"{node.admin}/ui/{address}")
    tab.until("document.querySelector('#page[data-ready=none]')")
    assert f"This address does not say which {what}:" in tab.text()
    assert tab.run("document.querySelector('#page a').getAttribute('href')") == f"/ui/{listed}"
    assert tab.complaints == []


def test_the_overview_requests_only_new_data(node: RunningNode, tab: Browser) -> None:
    tab.open(f"{node.admin}/")
    tab.until("document.querySelector('#page[data-ready=overview]')")
    until_asked_again(tab, "/v1/events")
    sizes = (
        "performance.getEntriesByType('resource').filter(e => e.name.includes('/v1/events'))"
        ".map(e => [new URL(e.name).search.split('=')[0], e.decodedBodySize])"
    )
    first, *following = tab.run(sizes)
    assert first[0] == "?newest"
    assert all(name == "?after" and size < 100 for name, size in following), following


def test_no_element_overflows_a_phone_screen(node: RunningNode, tab: Browser) -> None:
    tab.look(width=390, height=844, dark=False)
    try:
        for page in ("topics", "messages?topic=large", "topic?name=large&tab=configuration", "broker?id=1", "quorum"):
            show(tab, node, page)
            tab.until("document.querySelector('main td')")
            outside = (
                "[...document.querySelectorAll('main td, main td *, main button, main input')]"
                ".filter(e => e.checkVisibility() && e.getBoundingClientRect().right > 390.5)"
                ".map(e => e.outerHTML.slice(0, 90))"
            )
            assert tab.run(outside) == [], page
            assert tab.run("document.documentElement.scrollWidth") <= 390, page
    finally:
        tab.look(width=1280, height=900, dark=False)


def test_charts_of_the_last_hour_are_drawn_and_described(node: RunningNode, tab: Browser) -> None:
    """After two samples, which come every ten seconds."""
    show(tab, node, "overview")
    tab.until("document.querySelectorAll('.chart canvas').length === 2")
    tab.until("document.querySelector('.chart').getAttribute('aria-label').includes('over the last hour; now in ')")
    make_topic(node, "charted", 1)
    show(tab, node, "topic?name=charted")
    tab.until("document.querySelectorAll('.charts section').length === 2")
    show(tab, node, "broker?id=1")
    tab.until("document.querySelectorAll('.chart canvas').length === 4")
    assert tab.complaints == []


def test_the_effect_of_a_decommissioning_is_shown_before_it_starts(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "stays", 2)
    show(tab, node, "broker?id=1")
    press(tab, "Decommission")
    tab.until("(document.querySelector('dialog')?.innerText ?? '').includes('partitions would stay')")
    shown = tab.run("document.querySelector('dialog').innerText")
    assert "0 replicas, 0 B, would be copied" in shown
    assert "Nothing would move." in shown
    plan = "/decommission/plan?bytes_per_second="
    assert tab.run(asked(f"{plan}{50 << 20}")) == 1
    tab.run("(i => { i.value = '8'; i.onchange(); })(document.querySelector('dialog input[name=rate]'))")
    tab.until(f"{asked(f'{plan}{8 << 20}')} === 1")
    press(tab, "Cancel")
    tab.until("!document.querySelector('dialog')")
    assert httpx.get(f"{node.admin}/v1/brokers/1", timeout=30).json()["desired_state"] == "active"
    assert tab.complaints == []


def test_a_record_that_is_produced_again_has_the_same_bytes(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "again", 1)
    producer = Producer({"bootstrap.servers": node.kafka})
    headers = [("none", None), ("lines", b"a\nb"), ("bytes", b"\xff\xfe"), ("a=b", b""), ("", b"x"), ("none", b"2")]
    producer.produce("again", "ä".encode() * 100_000 + b"\r\n\xff", b"", headers=headers)
    assert producer.flush(30) == 0
    show(tab, node, "messages?topic=again")
    press(tab, "Resend")
    press(tab, "Send")
    tab.until("document.querySelectorAll('td[data-label=record]').length === 2")
    first, second = read(node, "again", 2)
    assert first == second


def test_a_large_value_is_produced_once_despite_typing_meanwhile(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "once", 1)
    show(tab, node, "messages?topic=once")
    tab.run("window.asked = 0; window.letGo = null; window.real = window.fetch;")
    tab.run(
        "window.fetch = async (...all) => { if (all[1].method === 'POST') { window.asked++;"
        " await new Promise(go => { window.letGo = go; }); } return window.real(...all); }; true"
    )
    press(tab, "Produce")
    tab.run(
        "(text => { text.value = 'x'.repeat(400000); text.dispatchEvent(new Event('input', { bubbles: true })); })"
        "(document.querySelector('dialog textarea[name=value]'))"
    )
    press(tab, "Send")
    tab.until("window.letGo")
    tab.run("document.querySelector('dialog textarea').dispatchEvent(new Event('input', { bubbles: true }))")
    assert tab.run("document.querySelector('dialog button[type=submit]').disabled")
    tab.run("document.querySelector('dialog form').requestSubmit()")
    tab.run("window.letGo()")
    tab.until("document.querySelectorAll('td[data-label=record]').length === 1 && !document.querySelector('dialog')")
    assert tab.run("window.asked") == 1
    assert [value for _, value, _ in read(node, "once", 1)] == [b"x" * 400_000]


def read(node: RunningNode, topic: str, count: int) -> list[tuple[bytes | None, bytes | None, object]]:
    """Key, value and headers of the first records of a partition."""
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "pages"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = [message for message in consumer.consume(count, 30) if message.error() is None]
    consumer.close()
    assert len(found) == count
    return [(message.key(), message.value(), message.headers()) for message in found]


def test_a_config_line_without_a_value_is_reported(node: RunningNode, tab: Browser) -> None:
    show(tab, node, "topics")
    press(tab, "Create a topic")
    tab.run(
        "(([name, lines]) => { name.value = 'never'; lines.value = 'retention.ms';"
        " name.dispatchEvent(new Event('input', { bubbles: true })); })"
        "([document.querySelector('dialog input[name=topic]'), document.querySelector('dialog textarea')])"
    )
    press(tab, "Create")
    tab.until("document.querySelector('dialog [role=alert]')")
    assert '"retention.ms" of the configuration has no =' in tab.text()
    press(tab, "Cancel")


def test_the_filter_of_the_config_list_stays_when_a_key_is_changed(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "filtered", 1)
    show(tab, node, "topic?name=filtered&tab=configuration")
    tab.until("document.querySelector('input[name=filter]')")
    tab.run("(f => { f.value = 'delete.ret'; f.oninput(); })(document.querySelector('input[name=filter]'))")
    press(tab, "Edit")
    tab.run("document.querySelector('dialog input[name=value]').value = '12345'")
    press(tab, "Save")
    tab.until("[...document.querySelectorAll('main td')].some(each => each.textContent === '12345')")
    assert tab.run("document.querySelector('input[name=filter]').value") == "delete.ret"
    assert tab.run("[...document.querySelectorAll('main td:first-child')].map(each => each.textContent)") == [
        "delete.retention.ms"
    ]


def test_large_numbers_keep_all_digits(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "digits", 1)
    show(tab, node, "messages?topic=digits")
    great = 9007199254740993
    record = {"partition_id": 0, "offset": great, "timestamp": "2026-01-01T00:00:00.000Z", "transaction": None}
    record |= {"key": None, "value": None, "headers": []}
    answer = json.dumps(
        {"topic_id": "A" * 22, "data": [record], "next_offsets": {"0": great + 2}, "unread_partitions": []}
    )
    tab.run(
        "(real => { window.seen = []; window.fetch = async (path, options) => { if (!path.includes('/records?'))"
        " return real(path, options); window.seen.push(decodeURIComponent(path));"
        f" return new Response({json.dumps(answer)}); }}; }})(window.fetch)"
    )
    press(tab, "Read")
    tab.until("document.querySelector('td[data-label=record]')")
    assert records(tab) == [f"0:{great}"]
    press(tab, "Read on")
    tab.until("window.seen.length === 2")
    assert f"positions=0:{great + 2}&" in tab.run("window.seen[1] + '&'")
    shown = (
        "import('/assets/lib.js').then(({ number, parse }) => parse('[9007199254740993, -1, 0.5, 1e300]').map(number))"
    )
    assert tab.run(shown)[:3] == ["9,007,199,254,740,993", "-1", "0.5"]
    assert tab.complaints == []


def test_a_group_is_reset_to_exactly_the_typed_offset(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "exact", 1)
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "exact"})
    consumer.commit(offsets=[TopicPartition("exact", 0, 0)], asynchronous=False)
    consumer.close()
    show(tab, node, "group?id=exact")
    tab.run(
        "(real => { window.sent = []; window.fetch = (path, options) => {"
        " if (options.method === 'POST') window.sent.push(options.body);"
        " return real(path, options); }; })(window.fetch)"
    )
    press(tab, "Reset offsets")
    choice = "document.querySelector('dialog select')"
    tab.run(f"(s => {{ s.value = 'offset'; s.dispatchEvent(new Event('input', {{ bubbles: true }})); }})({choice})")
    tab.run("document.querySelector('dialog [name=value]').value = '9007199254740993'")
    press(tab, "Preview")
    tab.until("document.querySelector('dialog table') || document.querySelector('dialog .note.bad')")
    assert "9007199254740993" in tab.run("window.sent[0]")
    assert tab.run("document.querySelector('dialog .note.bad')?.innerText ?? ''") == ""
    assert tab.complaints == []


def test_unedited_headers_are_produced_again_unchanged(node: RunningNode, tab: Browser) -> None:
    make_topic(node, "headers", 1)
    headers = [
        ("none", None),
        ("empty", b""),
        ("lines", b"a\nb"),
        ("bytes", b"\xff"),
        ("bytes", b"\xfe"),
        ("a=b", b"="),
    ]
    producer = Producer({"bootstrap.servers": node.kafka})
    producer.produce("headers", b"v", partition=0, headers=headers)
    assert producer.flush(30) == 0
    show(tab, node, "messages?topic=headers")
    press(tab, "Resend")
    tab.run(
        "(f => f.value = f.value.replace('empty=', 'full=x') + '\\nbare')(document.querySelector('[name=headers]'))"
    )
    press(tab, "Send")
    tab.until("document.querySelectorAll('td[data-label=record]').length === 2")
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "headers"})
    consumer.assign([TopicPartition("headers", 0, 1)])
    [again] = consumer.consume(1, 30)
    consumer.close()
    assert again.headers() == [headers[0], ("full", b"x"), *headers[2:], ("bare", None)]
    assert tab.complaints == []
