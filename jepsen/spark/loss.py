"""Real losses: retention overtakes a query that is stopped, and an unclean election leaves a log that ends below a
query's checkpoint.

Each loss happens under two queries: one must fail on data loss, the other must report it and continue. An ordinary
client lists the log's start and end offsets before and after, which gives the lost offsets. A report must name exactly
these.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka.cimpl import NewTopic

from jepsen.spark.checks import Seen, Verdict
from jepsen.spark.loss_checks import Lost, judge_failure, judge_rest, judge_warning, shown
from jepsen.spark.processes import SparkQueries
from jepsen.three_nodes import NODES, ThreeNodes, until
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.testing.foreign.librdkafka import AdminClient, Consumer, Producer
from kraft.testing.watermarks import watermarks

PARTITIONS = 2
TOPIC_RESOURCE = 2
SEGMENT_BYTES = 1 << 20
PADDED = "x" * 2048
OVERTAKEN = 1500
"""Padded records per partition: three segments, of which retention deletes two."""
WAIT_SECONDS_MAX = 180.0
RETENTION_CHECK_MS = 500
CAUSES = ("retention", "election")


class LossRound:
    """Causes each kind of loss once, for one source. Raises AssertionError or TimeoutError if nothing was lost, which
    proves nothing."""

    def __init__(
        self,
        cluster: ThreeNodes,
        directory: Path,
        number: int,
        source: str,
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.cluster = cluster
        self.directory = directory / f"loss-{number}-{source}"
        self.chance = random.Random(number)
        self.number = number
        self.options = dict(options)
        self.verdict = Verdict(source)
        self.acknowledged: list[Seen] = []
        self.topic = ""
        self.bites: list[str] = []

    def run(self, causes: tuple[str, ...] = CAUSES) -> Verdict:
        with SparkQueries(self.directory, {"bootstrap": self.cluster.bootstrap}) as self.spark:
            for cause in causes:
                self.topic, self.acknowledged = f"loss-{cause}-{self.number}-{self.verdict.source}", []
                getattr(self, f"lose_by_{cause}")()
        return self.verdict

    # -- causes

    def lose_by_retention(self) -> None:
        self.create(NODES, **{"segment.bytes": str(SEGMENT_BYTES), "min.insync.replicas": "2"})
        self.write(100)
        self.read_both()
        before = self.ends()
        self.write(OVERTAKEN, PADDED)
        self.alter({"retention.bytes": str(SEGMENT_BYTES)})
        until(
            lambda: all(low > before[partition] for partition, low in self.starts().items()),
            "retention took nothing",
            WAIT_SECONDS_MAX,
        )
        self.alter({"retention.bytes": "-1"})
        lows = self.settled(self.starts)
        lost = frozenset(Lost(self.topic, partition, before[partition], low) for partition, low in lows.items())
        self.bites.append(f"retention took {shown(lost)}")
        kept = frozenset(
            each for each in self.acknowledged if not before[each.partition] <= each.offset < lows[each.partition]
        )
        self.judge(lost, kept)

    def lose_by_election(self) -> None:
        first, second, _ = self.chance.sample(NODES, 3)
        self.create((first, second), **{"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})
        self.write(100)
        self.cluster.nodes[second].kill()
        until(lambda: self.in_sync(1), "the dead replica stays in sync", WAIT_SECONDS_MAX)
        self.write(60)
        self.read_both()
        before = self.ends()
        self.cluster.nodes[first].kill()
        self.cluster.nodes[second].start()
        until(lambda: self.led_by(second), "nobody was elected", WAIT_SECONDS_MAX)
        after = self.settled(self.ends)
        assert all(after[partition] < before[partition] for partition in after), (
            f"the election lost nothing: {before} to {after}"
        )
        lost = frozenset(Lost(self.topic, partition, end, before[partition]) for partition, end in after.items())
        self.bites.append(f"an unclean election took {shown(lost)}")
        self.judge(lost, frozenset(self.acknowledged))
        self.cluster.nodes[first].start()
        self.write(30)
        self.judge_going_on(frozenset(self.acknowledged))

    # -- judgement

    def judge(self, lost: frozenset[Lost], kept: frozenset[Seen]) -> None:
        """Judge both queries. `kept` are the records that the query that continues must have at the end."""
        failed, _ = self.read(fail_on_data_loss=True)
        judge_failure(self.verdict, f"{self.topic} true", failed, lost)
        failed, warned = self.read(fail_on_data_loss=False)
        if self.verdict.source == "kraft":
            judge_warning(self.verdict, f"{self.topic} false", failed, warned, lost)
        judge_rest(self.verdict, f"{self.topic} false", self.rows(), kept, frozenset(self.acknowledged))

    def judge_going_on(self, kept: frozenset[Seen]) -> None:
        """Check that records written afterwards arrive, and that no further loss is reported."""
        failed, warned = self.read(fail_on_data_loss=False)
        if self.verdict.source == "kraft":
            judge_warning(self.verdict, f"{self.topic} later", failed, warned, frozenset())
        judge_rest(self.verdict, f"{self.topic} later", self.rows(), kept, kept)

    def read_both(self) -> None:
        for fail_on_data_loss in (True, False):
            failed, _ = self.read(fail_on_data_loss=fail_on_data_loss)
            assert failed is None, f"a query failed before anything was lost: {failed}"

    def read(self, *, fail_on_data_loss: bool) -> tuple[str | None, str]:
        """Run a query. Returns its error, if any, and what Spark's processes wrote to stderr meanwhile."""
        asked = {
            "source": self.verdict.source,
            "topic": self.topic,
            "fail_on_data_loss": fail_on_data_loss,
            "options": self.options,
        }
        answer, warned = self.spark.ask("run", self.query(fail_on_data_loss), **asked)
        return answer["failed"], warned

    def rows(self) -> list[Seen]:
        answer, _ = self.spark.ask("rows", self.query(False))
        return [Seen(*row) for row in answer["rows"]]

    def query(self, fail_on_data_loss: bool) -> str:
        return f"{self.topic}-{fail_on_data_loss}"

    # -- the cluster

    def create(self, replicas: Sequence[int], **config: str) -> None:
        """Create a topic whose partitions have these replicas, the preferred leader first."""
        admin = AdminClient(self.cluster.servers())
        wanted = NewTopic(
            self.topic, PARTITIONS, replica_assignment=[list(replicas) for _ in range(PARTITIONS)], config=config
        )
        admin.create_topics([wanted])[self.topic].result(30)
        until(lambda: self.in_sync(len(replicas)), "the topic is not there")

    def alter(self, config: dict[str, str]) -> None:
        configs = [AlterableConfig(name=name, value=value) for name, value in config.items()]
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=self.topic, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        (answer,) = self.cluster.ask(self.cluster.running[0], request).responses
        assert answer.error_code == 0, answer.error_message

    def write(self, count: int, padding: str = "") -> None:
        """Write `count` records to each partition, all acknowledged."""
        producer = Producer(self.cluster.servers(enable_idempotence=True, linger_ms=20))
        refused: list[Any] = []

        def told(error: Any, message: Any) -> None:
            if error is not None:
                refused.append(error)
            else:
                self.acknowledged.append(Seen(message.partition(), message.offset(), message.value().decode()))

        begun = len(self.acknowledged)
        for number in range(begun, begun + count * PARTITIONS):
            producer.produce(self.topic, f"{number}{padding}".encode(), partition=number % PARTITIONS, on_delivery=told)
            producer.poll(0)
        assert producer.flush(WAIT_SECONDS_MAX) == 0, "not all is acknowledged"
        assert not refused, refused[:3]

    def starts(self) -> dict[int, int]:
        return {partition: low for partition, (low, _) in self.watermarks().items()}

    def ends(self) -> dict[int, int]:
        return {partition: high for partition, (_, high) in self.watermarks().items()}

    def watermarks(self) -> dict[int, tuple[int, int]]:
        consumer = Consumer(self.cluster.servers(group_id="watermarks"))
        try:
            return {
                partition: watermarks(consumer, self.topic, partition, WAIT_SECONDS_MAX)
                for partition in range(PARTITIONS)
            }
        finally:
            consumer.close()

    def settled(self, look: Callable[[], dict[int, int]]) -> dict[int, int]:
        """Return what `look` returns once it stays the same for longer than retention needs."""
        seen = look()
        while True:
            time.sleep(3 * RETENTION_CHECK_MS / 1000)
            before, seen = seen, look()
            if seen == before:
                return seen

    def in_sync(self, count: int) -> bool:
        found = self.cluster.partitions(self.topic)
        return bool(found) and all(len(partition.isrs) == count for partition in found.values())

    def led_by(self, node: int) -> bool:
        found = self.cluster.partitions(self.topic)
        return bool(found) and all(partition.leader == node for partition in found.values())
