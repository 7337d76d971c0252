"""Topics that are created, grown and deleted. What the quorum acknowledged is never undone, even if all nodes lose
power at the same moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewPartitions, NewTopic

from jepsen.checker.operations import OK, TopicChange, TopicSeen
from jepsen.history import Recorder
from jepsen.servers import Servers
from jepsen.workloads.client import Client
from kraft.testing.foreign.librdkafka import AdminClient
from kraft.testing.foreign.process import Hung

TOPICS_MAX = 80
ASK_SECONDS_MAX = 8
SEEN_SECONDS_MAX = 20.0


class TopicMaker(Client):
    """Creates and changes topics. Every topic has a unique name, and its changes follow one another."""

    def __init__(self, name: str, recorder: Recorder, servers: Servers, seed: int, period: float = 0.4) -> None:
        super().__init__(name, recorder, servers, seed)
        self.period = period
        self.changes: dict[str, list[TopicChange]] = {}

    def open(self) -> None:
        self.admin = AdminClient({**self.servers.librdkafka})

    def work(self) -> None:
        if len(self.changes) < TOPICS_MAX and (not self.changes or self.chance.random() < 0.6):
            topic = f"made-{self.name}-{len(self.changes)}"
            self._change(
                topic,
                1,
                lambda: self.admin.create_topics([NewTopic(topic, 1, 3)], request_timeout=ASK_SECONDS_MAX)[topic],
            )
        else:
            self._change_one()
        self.stopping.wait(self.period)

    def _change_one(self) -> None:
        living = [
            topic for topic, changes in self.changes.items() if changes[0].outcome == OK and changes[-1].partitions
        ]
        if not living:
            return
        topic = self.chance.choice(living)
        if self.chance.random() < 0.4:
            self._change(topic, 0, lambda: self.admin.delete_topics([topic], request_timeout=ASK_SECONDS_MAX)[topic])
        else:
            partitions = max(change.partitions for change in self.changes[topic]) + 1
            self._change(
                topic,
                partitions,
                lambda: self.admin.create_partitions(
                    [NewPartitions(topic, partitions)], request_timeout=ASK_SECONDS_MAX
                )[topic],
            )

    def _change(self, topic: str, partitions: int, ask: Callable[[], Any]) -> None:
        change = TopicChange(process=self.name, began=self.recorder.now(), topic=topic, partitions=partitions)
        self.changes.setdefault(topic, []).append(change)
        self.recorder.begin(change)
        try:
            ask().result(ASK_SECONDS_MAX + 4)
        except (KafkaException, TimeoutError) as problem:
            change.failed(self.recorder.now(), str(problem), definite=False)
            if isinstance(problem, Hung):
                self.replace()
        else:
            change.ok(self.recorder.now())
        self.recorder.done(change)

    def look(self) -> None:
        """After healing, once this client has ended: record the topics that exist. Brokers have a while to catch up."""
        admin = AdminClient({**self.servers.librdkafka})
        deadline = time.monotonic() + SEEN_SECONDS_MAX
        while True:
            began = self.recorder.now()
            try:
                found = admin.list_topics(timeout=ASK_SECONDS_MAX).topics
            except KafkaException as problem:
                if time.monotonic() > deadline:
                    self.unexpected(f"no broker tells what topics there are after healing: {problem}")
                    return
                continue
            seen = {
                topic: len(found[topic].partitions) if topic in found and found[topic].error is None else 0
                for topic in self.changes
            }
            if all(self._expected(topic, seen[topic]) for topic in self.changes) or time.monotonic() > deadline:
                break
            time.sleep(0.3)
        for topic, partitions in seen.items():
            each = TopicSeen(process="final", began=began, topic=topic, partitions=partitions)
            each.ok(self.recorder.now())
            self.recorder.done(each)

    def _expected(self, topic: str, partitions: int) -> bool:
        acknowledged = [change.partitions for change in self.changes[topic] if change.outcome == OK]
        if not acknowledged or 0 in [change.partitions for change in self.changes[topic]]:
            return 0 not in acknowledged or partitions == 0
        return partitions >= max(acknowledged)
