"""Three `kraft-node` processes that are one cluster, and the gap that a killed leader leaves."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from kraft._tools.demo.node import DemoError, Node
from kraft.testing.ports import free_ports

NODES = (1, 2, 3)
CLUSTER_ID = "a3JhZnQtZGVtby1jbHVzdA"
WAIT_SECONDS = 60.0
PAUSE_SECONDS = 0.05


class Cluster:
    """Static voters, each broker and controller, over directories below `place`."""

    def __init__(self, place: Path) -> None:
        ports = free_ports(2 * len(NODES))
        addresses = {node: (f"127.0.0.1:{ports[2 * index]}", f"127.0.0.1:{ports[2 * index + 1]}") for index, node in enumerate(NODES)}
        voters = ",".join(f"{node}@{controller}" for node, (_, controller) in addresses.items())
        common = ("--voters", voters, "--format", "--cluster-id", CLUSTER_ID)
        self.nodes = {node: Node(place / str(node), *addresses[node], "--node-id", str(node), *common) for node in NODES}

    @property
    def bootstrap(self) -> str:
        return ",".join(node.addresses["kafka"] for node in self.nodes.values())

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.runs]

    def start(self) -> float:
        """Start every node that is down, at once. Answers the seconds until all served. Raises DemoError."""
        begun = time.monotonic()
        down = [node for node in self.nodes.values() if not node.runs]
        with ThreadPoolExecutor(len(down)) as starters:
            list(starters.map(Node.start, down))
        return time.monotonic() - begun

    def kill(self) -> None:
        """SIGKILL to every node at once."""
        for node in self.running:
            node.send(signal.SIGKILL)
        for node in self.running:
            node.kill()

    def stop(self) -> None:
        """Ask every node to leave. Raises DemoError when one does not leave well."""
        running = self.running
        with ThreadPoolExecutor(len(running)) as stoppers:
            codes = list(stoppers.map(Node.stop, running))
        if any(codes):
            raise DemoError(f"the nodes left with exit codes {codes} when they were asked to stop")

    def rest(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One call of the HTTP admin API of any node that runs: each answers for the whole cluster. Raises DemoError with the server's own words."""
        return self.running[0].rest(method, f"/v3/clusters/{CLUSTER_ID}{path}", body)

    def leader(self, topic: str, partition: int) -> int:
        """The id of the leading node. Raises DemoError when there is none."""
        answer = self.rest("GET", f"/topics/{topic}/partitions/{partition}/replicas")
        for replica in answer["data"]:
            if replica["is_leader"]:
                return int(replica["broker_id"])
        raise DemoError(f"{topic}-{partition} has no leader")

    def until_in_sync(self, topic: str, partitions: int) -> None:
        """Wait until every replica of the topic is in sync. Raises DemoError."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            found = [self.rest("GET", f"/topics/{topic}/partitions/{partition}/replicas")["data"] for partition in range(partitions)]
            if all(len(replicas) == len(NODES) and all(replica["is_in_sync"] for replica in replicas) for replicas in found):
                return
            time.sleep(PAUSE_SECONDS)
        raise DemoError(f"the replicas of {topic} are not in sync after {WAIT_SECONDS:g} s")


class Pulse:
    """An ordinary producer that writes one small record after another to a partition and notes when each was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        from confluent_kafka import Producer

        servers: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self._producer = Producer({**servers, "reconnect.backoff.max.ms": 500})
        self._topic = topic
        self._partition = partition
        self._stopped = threading.Event()
        self.acknowledged: list[float] = []
        self.refused: list[str] = []

    def run(self) -> None:
        while not self._stopped.wait(PAUSE_SECONDS / 10):
            self._producer.produce(self._topic, b"pulse", partition=self._partition, on_delivery=self._told)
            self._producer.poll(0)
        self._producer.flush(WAIT_SECONDS)

    def stop(self) -> None:
        self._stopped.set()

    def longest_gap(self) -> float:
        """Seconds without an acknowledgement, at most. Raises DemoError when a record was refused."""
        if self.refused:
            raise DemoError(f"{len(self.refused)} records were refused: {self.refused[0]}")
        return max((after - before for before, after in pairwise(self.acknowledged)), default=0.0)

    def until_acknowledged(self, count: int) -> None:
        """Wait for `count` more. Raises DemoError."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + WAIT_SECONDS
        while len(self.acknowledged) < wanted:
            if time.monotonic() > deadline:
                raise DemoError(f"no write was acknowledged any more: {self.refused[:1] or 'no answer'}")
            time.sleep(PAUSE_SECONDS)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append(time.monotonic())
        else:
            self.refused.append(error.str())


@contextmanager
def pulse(bootstrap: str, topic: str, partition: int) -> Iterator[Pulse]:
    """A `Pulse` that runs in a thread for the length of the block."""
    writer = Pulse(bootstrap, topic, partition)
    thread = threading.Thread(target=writer.run, name="pulse")
    thread.start()
    try:
        yield writer
    finally:
        writer.stop()
        thread.join()
