"""The pictures of the console in docs/images, made by `python -m tests.integration.console_pictures` (make pictures).

A cluster of three nodes serves producers and consumers for some minutes. Then one node is killed, and Chromium
photographs the pages. The file SOURCES holds the digest of the console's files that the pictures were made of.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from jepsen.three_nodes import until
from tests.integration.browser import Browser, browser
from tests.integration.console_browser import show
from tests.integration.rest_cluster import ROOT, Started

IMAGES: Final = ROOT / "docs/images"
SOURCES: Final = IMAGES / "sources.sha256"
UI: Final = ROOT / "api/kraft_http/ui"
WIDTH: Final = 1280
PAGES: Final = {
    "topics": ("topics", "orders", 620),
    "topic": ("topic?name=orders", "offsets in use", 900),
    "messages": ("messages?topic=orders&from=latest", "Vienna", 900),
    "groups": ("groups", "billing", 560),
    "group": ("group?id=billing", "Last commit", 900),
    "clients": ("clients", "checkout", 620),
    "share-group": ("share-group?id=mailers", "deliveries", 900),
}
"""Page, a text that it must show, and height in pixels."""
KRAFT: Final = (sys.executable, "-m", "kraft.cli.admin.app")
ASK_FOR_METRICS: Final = ("configs", "set", "client-metrics", "all", "metrics=*", "interval.ms=5000")
KILLED: Final = 2
TOWNS: Final = ("Vienna", "Oslo", "Lagos", "Lima", "Osaka")
TRAFFIC_SECONDS: Final = 240


def digest() -> str:
    """The digest of all files of the console."""
    found = hashlib.sha256()
    for path in sorted(UI.iterdir()):
        if path.suffix in (".css", ".html", ".js"):
            found.update(path.name.encode() + b"\n" + path.read_bytes())
    return found.hexdigest() + "\n"


class Traffic:
    """Clients at work until they are stopped: one producer whose rate rises and falls, and two groups."""

    def __init__(self, bootstrap: str) -> None:
        self._stopped = threading.Event()
        common: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
        topics = [NewTopic(name, partitions, 3) for name, partitions in (("orders", 6), ("deliveries", 3), ("mail", 3))]
        admin = AdminClient(common)
        for created in admin.create_topics(topics).values():
            created.result(30)
        asking = [*KRAFT, *ASK_FOR_METRICS, "--bootstrap-server", bootstrap]
        subprocess.run(asking, check=True, capture_output=True, timeout=60)
        self._producer = Producer({**common, "client.id": "checkout", "linger.ms": 20})
        self._billing = Consumer({**common, "client.id": "billing-1", "group.id": "billing"})
        self._mailers = ShareConsumer({**common, "client.id": "mailer-1", "group.id": "mailers"})
        works = (self._produce, self._bill, self._mail)
        self._threads = [threading.Thread(target=work) for work in works]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        number = 0
        while not self._stopped.wait(0.1):
            for _ in range(12 + int(9 * math.sin(time.monotonic() / 20))):
                number += 1
                value = json.dumps({"order": number, "town": TOWNS[number % len(TOWNS)], "total": 10 + number * 7 % 90})
                self._producer.produce("orders", value, key=f"customer-{number * 31 % 997}")
                if number % 3 == 0:
                    self._producer.produce("mail", value)
            self._producer.poll(0)
        self._producer.flush(30)

    def _bill(self) -> None:
        self._billing.subscribe(["orders"])
        while not self._stopped.is_set():
            self._billing.consume(80, 0.2)
            self._stopped.wait(0.3)  # Slower than the producer now and then: there is a lag to see.
        self._billing.close()

    def _mail(self) -> None:
        self._mailers.subscribe(["mail"])
        while not self._stopped.is_set():
            self._mailers.poll(timeout=0.2)
            self._stopped.wait(1.5)  # Meanwhile its records are in flight: the next poll accepts them.
        self._mailers.close()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(60)


@contextmanager
def cluster(directory: Path, seconds: float) -> Iterator[Started]:
    """Three nodes that have served clients for so long, and go on."""
    started = Started(directory / "cluster")
    try:
        traffic = Traffic(f"127.0.0.1:{started.kafka}")
        try:
            time.sleep(seconds)
            yield started
        finally:
            traffic.stop()
    finally:
        started.process.send_signal(signal.SIGINT)
        started.process.wait(60)
        assert started.process.stdout is not None
        started.process.stdout.close()


def photograph(directory: Path, started: Started) -> None:
    """Write a picture of each page to `directory`, and two of the overview after a node is killed."""
    with tempfile.TemporaryDirectory() as profile, browser(Path(profile)) as tab:
        for name, (page, expected, height) in PAGES.items():
            tab.look(width=WIDTH, height=height, dark=False)
            show(tab, started.admins[1], page, expected)
            _take(tab, directory / f"{name}.webp")
        os.kill(started.pid(KILLED), signal.SIGKILL)
        until(lambda: "brokers_down" in started.codes(1), "the node's death is seen")
        for theme in ("light", "dark"):
            tab.look(width=WIDTH, height=1120, dark=theme == "dark")
            show(tab, started.admins[1], "overview", f"Broker {KILLED} is down")
            tab.until("document.querySelectorAll('main canvas').length >= 2")
            _take(tab, directory / f"status-{theme}.webp")
        assert tab.complaints == []


def _take(tab: Browser, target: Path) -> None:
    tab.run("document.fonts.ready.then(() => new Promise(done => requestAnimationFrame(done)))")
    tab.photograph(target)


def main() -> int:
    with tempfile.TemporaryDirectory() as directory, cluster(Path(directory), TRAFFIC_SECONDS) as started:
        photograph(IMAGES, started)
    SOURCES.write_text(digest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
