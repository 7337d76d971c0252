"""The console's pages in a browser."""

from __future__ import annotations

import json

import httpx
from confluent_kafka import Producer

from tests.integration.browser import Browser
from tests.integration.rest_node import RunningNode


def make_topic(node: RunningNode, name: str, partitions: int) -> None:
    body = {"topic_name": name, "partitions_count": partitions}
    assert httpx.post(f"{node.admin}/v3/clusters/{node.cluster_id}/topics", json=body, timeout=30).status_code == 201


def produce(node: RunningNode, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": node.kafka, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def show(tab: Browser, node: RunningNode, page: str) -> None:
    tab.open(f"{node.admin}/ui/{page}")
    tab.until(f"document.querySelector('#page[data-ready={page.partition('?')[0]}]')")


def records(tab: Browser) -> list[str]:
    found: list[str] = tab.run("[...document.querySelectorAll('td[data-label=record]')].map(d => d.innerText.trim())")
    return found


def choose(tab: Browser, label: str, value: str) -> None:
    wanted = f"[...document.querySelectorAll('label')].find(l => l.firstChild.data === {json.dumps(label)})"
    tab.run(f"(s => {{ s.value = {json.dumps(value)}; s.onchange(); }})({wanted}.querySelector('select'))")


def press(tab: Browser, text: str) -> None:
    tab.run(f"[...document.querySelectorAll('button')].find(b => b.innerText === {json.dumps(text)}).click()")
