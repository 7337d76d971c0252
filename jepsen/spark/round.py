"""One round: write records, let Spark read them, kill processes, continue, read to the end, judge."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.cimpl import NewPartitions

from jepsen.spark.checks import (
    Seen,
    Verdict,
    judge_batch_read,
    judge_checkpoint,
    judge_order,
    judge_plans,
    judge_sink,
    judge_values_by_place,
)
from jepsen.spark.job import SINKS, STUCK
from jepsen.spark.plans import SteadyPlanner
from jepsen.spark.processes import SparkDriver
from jepsen.spark.spark_logs import read_to_the_end
from jepsen.spark.writer import NumberedWriter
from jepsen.three_nodes import ThreeNodes, until
from kraft.testing.foreign.librdkafka import AdminClient

PARTITIONS = 2
DRIVER_SECONDS_MAX = 480.0
PROGRESS_SECONDS_MAX = 180.0
STUCK_MAX = 3
"""How often per round Spark's driver may be restarted because it cannot start Python workers any more."""
FAULTS = ("leader", "workers", "partition", "driver", "controller")


class Round:
    """One round. `sources` are "kraft" and "kafka". `faults` of FAULTS are injected one after another, in an order
    drawn from the seed."""

    def __init__(
        self,
        cluster: ThreeNodes,
        directory: Path,
        number: int,
        sources: Sequence[str],
        faults: Sequence[str],
        master: str,
    ) -> None:
        self.cluster = cluster
        self.chance = random.Random(number)
        self.topic = f"round-{number}"
        self.sources = sources
        self.faults = self.chance.sample(list(faults), len(faults))
        spec = {"bootstrap": cluster.bootstrap, "topic": self.topic, "sources": list(sources), "master": master}
        self.driver = SparkDriver(directory / self.topic, spec)
        self.partitions = PARTITIONS
        self.bites: list[str] = []
        self.began = time.time()
        self.stuck = 0

    def run(self) -> list[Verdict]:
        """Run and judge the round. Raises AssertionError or TimeoutError if the round proves nothing."""
        self.cluster.create(self.topic, PARTITIONS)
        for source in self.sources:
            self.cluster.create(f"{self.topic}-{source}", PARTITIONS)
        self.cluster.until_in_sync(self.topic)
        try:
            with (
                NumberedWriter(self.cluster.bootstrap, self.topic, self.partitions) as writer,
                SteadyPlanner(self.cluster.bootstrap, self.topic, writer) as planner,
            ):
                self.driver.start()
                self.until_progress()
                for fault in self.faults:
                    before = len(writer.acknowledged)
                    getattr(self, f"break_{fault}")(writer)
                    until(
                        lambda before=before: len(writer.acknowledged) > before + 50,
                        f"nothing acknowledged after {fault}",
                        PROGRESS_SECONDS_MAX,
                    )
                    self.until_progress()
            self.until_drained()
            return self.judge(writer, planner)
        finally:
            self.driver.close()

    # -- faults

    def break_leader(self, _: NumberedWriter) -> None:
        self.kill_node(self.cluster.leader(self.topic, self.chance.randrange(PARTITIONS)), "the leader of a partition")

    def break_controller(self, _: NumberedWriter) -> None:
        from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData

        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
        )
        answer = self.cluster.ask(1, request)
        self.kill_node(answer.topics[0].partitions[0].leader_id, "the active controller")

    def kill_node(self, node: int, role: str) -> None:
        self.cluster.nodes[node].kill()
        time.sleep(self.chance.uniform(0.5, 3.0))
        self.cluster.nodes[node].start()
        self.bitten(f"killed {role} (node {node})")

    def bitten(self, what: str) -> None:
        self.bites.append(what)
        print(f"  {self.topic}: {time.time() - self.began:.0f} s: {what}", flush=True)

    def break_workers(self, _: NumberedWriter) -> None:
        killed = self.driver.kill_workers()
        assert killed, "Spark had no Python workers to kill"
        self.bitten(f"killed {killed} Python workers of Spark")

    def break_driver(self, _: NumberedWriter) -> None:
        time.sleep(self.chance.uniform(0.0, 0.5))
        self.driver.kill()
        self.bitten("killed Spark's driver")
        self.driver.start()

    def break_partition(self, writer: NumberedWriter) -> None:
        admin = AdminClient(self.cluster.servers())  # Kept until the answer is there.
        self.partitions += 1
        admin.create_partitions([NewPartitions(self.topic, self.partitions)])[self.topic].result(30)
        until(lambda: len(self.cluster.partitions(self.topic)) == self.partitions, "the new partition is not there")
        writer.partitions = self.partitions
        self.bitten("added a partition")

    def until_progress(self) -> None:
        """Wait until every query has completed a batch and every source a batch read since this call, so that none is
        stuck."""
        began = time.time()
        wanted = {f"{source}-{sink}" for source in self.sources for sink in SINKS} | set(self.sources)

        def all_moved() -> bool:
            if self.driver.exit_code() == STUCK:
                self.start_stuck_driver_again()
            assert self.driver.is_running(), f"the driver is gone:\n{self.driver.log_tail()}"
            recent = [each for each in self.driver.events() if each["time"] > began]
            return wanted <= {
                each.get("query") or each.get("source") for each in recent if each["kind"] in ("batch", "read")
            }

        until(
            all_moved, f"queries are stuck: {self.driver.events()[-3:]}\n{self.driver.log_tail()}", DRIVER_SECONDS_MAX
        )

    def until_drained(self) -> None:
        """Wait until everything is read to the end."""
        (self.driver.directory / "drain").touch()
        while (code := self.driver.wait()) == STUCK:
            self.start_stuck_driver_again()
        assert code == 0, f"the driver ended with {code}:\n{self.driver.log_tail()}"

    def start_stuck_driver_again(self) -> None:
        self.stuck += 1
        assert self.stuck <= STUCK_MAX, f"the driver cannot start Python workers:\n{self.driver.log_tail()}"
        self.bitten("Spark's factory of Python workers was stuck, its driver was restarted")
        self.driver.kill()
        self.driver.start()

    # -- judgement

    def judge(self, writer: NumberedWriter, planner: SteadyPlanner) -> list[Verdict]:
        assert planner.broken is None, f"the planner broke: {planner.broken!r}"
        log = {
            (m.partition(), m.offset()): text(m.value()) for m in read_to_the_end(self.cluster.bootstrap, self.topic)
        }
        assert {partition for partition, _ in log} == set(range(self.partitions)), (
            "a partition was added and got no record"
        )
        sent = frozenset(writer.sent)
        verdicts = []
        for source in self.sources:
            verdict = Verdict(source)
            for sink in ("parquet", "foreach"):
                found = [
                    Seen(*row)
                    for row in json.loads((self.driver.directory / "results" / f"{source}-{sink}.json").read_text())
                ]
                judge_sink(verdict, f"{source} {sink}", found, writer.acknowledged, sent, exactly_once=True)
                judge_values_by_place(verdict, f"{source} {sink}", found, log)
            copied = self.copied(source)
            judge_sink(verdict, f"{source} log", copied, writer.acknowledged, sent, exactly_once=source == "kraft")
            judge_order(verdict, f"{source} log", copied, exactly_once=source == "kraft")
            judge_values_by_place(verdict, f"{source} log", copied, log)
            for sink in SINKS:
                judge_checkpoint(
                    verdict,
                    f"{source}-{sink}",
                    checkpointed(self.driver.directory / "checkpoints" / f"{source}-{sink}", self.topic),
                )
            self.judge_events(verdict)
            if source == "kraft":
                judge_plans(verdict, planner.plans)
            verdicts.append(verdict)
        return verdicts

    def copied(self, source: str) -> list[Seen]:
        """Return the records that the log sink wrote, in the order of its topic."""
        found = [
            json.loads(message.value() or b"{}")
            for message in read_to_the_end(self.cluster.bootstrap, f"{self.topic}-{source}")
        ]
        return [Seen(each["partition"], each["offset"], each["value"]) for each in found]

    def judge_events(self, verdict: Verdict) -> None:
        failures: dict[str, int] = {}
        for event in self.driver.events():
            if event["kind"] == "read" and event["source"] == verdict.source:
                judge_batch_read(
                    verdict, {int(p): tuple(c) for p, c in event["counted"].items()}, f"{verdict.source} batch read"
                )
            if event["kind"] == "failed" and event["query"].startswith(verdict.source):
                failures[event["query"]] = failures.get(event["query"], 0) + 1
                if "DATA_LOSS" in event["why"] or "NOT_REPEATABLE" in event["why"]:
                    verdict.violations.append(f"{event['query']}: loss that is none: {event['why'][:500]}")
        if failures:
            verdict.notes.append(f"started again: {failures}")


def checkpointed(place: Path, topic: str) -> list[dict[str, int]]:
    """Return the offsets of each batch in the checkpoint, oldest first. The query's start, which the first batch stores
    under the keys `00`, `01`, ..., is left out."""
    files = sorted(
        (path for path in (place / "offsets").iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
    )
    found = [json.loads(path.read_text().splitlines()[-1])[topic] for path in files]
    return [{name: end for name, end in each.items() if name == str(int(name))} for each in found]


def text(value: Any) -> str:
    return bytes(value or b"").decode()
