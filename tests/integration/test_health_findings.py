"""Whoever waits is told, by REST and the command line alike, with what ends the wait and what that would lose: three
nodes in one process, a leader lost with records nobody else has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
import trio
from confluent_kafka.admin import NewTopic
from kraft_http.app import create_app

from kraft.cli.admin.app import main as kraft
from kraft.testing.foreign.librdkafka import AdminClient, Producer
from kraft.testing.local_cluster import LocalCluster

COPIED, ALONE = 20, 7
LOOKS_MAX = 600
SETTINGS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "default.replication.factor": "3",
}


def create_and_write(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 2, config={"min.insync.replicas": "1"})])[topic].result(30)
    write(bootstrap, topic, COPIED)


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0


async def until(condition: Callable[[], Awaitable[Any]], what: str) -> None:
    for _ in range(LOOKS_MAX):
        if await condition():
            return
        await trio.sleep(0.1)
    raise TimeoutError(what)


class Asked:
    """A cluster, asked by REST of its nodes and by the command line."""

    def __init__(self, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster = cluster
        self.capsys = capsys

    def partition(self, node: int, topic: str) -> Any:
        return self.cluster.node(node).shared.loader.image.topics.by_name(topic).partitions[0]  # type: ignore[union-attr]

    async def get(self, node: int, path: str) -> Any:
        app = create_app(self.cluster.node(node).admin_service, lambda event: None)

        async def ask() -> Any:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                return (await client.get(path)).raise_for_status().json()

        return await trio.to_thread.run_sync(lambda: asyncio.run(ask()))

    async def kraft(self, *arguments: str) -> tuple[int, str]:
        bootstrap = ("--bootstrap-server", self.cluster.bootstrap)
        code = await trio.to_thread.run_sync(lambda: kraft([*arguments, *bootstrap]))
        return code, self.capsys.readouterr().out

    async def verdicts(self) -> list[Any]:
        """The findings of the command line, then those of each node by REST."""
        code, text = await self.kraft("cluster", "health", "-o", "json")
        told = json.loads(text)
        assert code == (0 if told["is_healthy"] else 1)
        rest = [await self.get(node, "/v1/cluster/health") for node in self.cluster.running]
        return [
            {"down": told["fenced_brokers"], "reasons": told["reasons"]},
            *({"down": each["nodes_down"], "reasons": each["reasons"]} for each in rest),
        ]

    async def agreed(self, *codes: str) -> list[dict[str, str]]:
        """The findings, once everybody tells the same and these are among them."""
        found: list[Any] = []

        async def is_one() -> bool:
            nonlocal found
            found = await self.verdicts()
            return all(each == found[0] for each in found) and {*codes} <= {
                each["code"] for each in found[0]["reasons"]
            }

        try:
            await until(is_one, "")
        except TimeoutError:
            raise AssertionError(found) from None
        return list(found[0]["reasons"])


def test_a_waiting_election_is_reported_by_every_tool_and_ended_by_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> None:
        async with LocalCluster(3, settings=SETTINGS) as cluster:
            asked = Asked(cluster, capsys)
            await trio.to_thread.run_sync(create_and_write, cluster.bootstrap, "t")
            first, second = asked.partition(1, "t").replicas
            (other,) = {1, 2, 3} - {first, second}

            async def is_left_alone() -> bool:
                return bool(asked.partition(other, "t").isr == (first,))

            await cluster.kill(second)
            await until(is_left_alone, "the dead follower stays in sync")
            await trio.to_thread.run_sync(write, cluster.bootstrap, "t", ALONE)
            await cluster.kill(first)
            await cluster.start(second)

            async def is_asked() -> bool:
                found = await asked.get(other, "/v1/elections/waiting")
                return bool([each for each in found.get("partitions", ()) if each["ends"]])

            await until(is_asked, "the live replica is not asked")
            (waiting,) = (await asked.get(second, "/v1/elections/waiting?topic=t"))["partitions"]
            assert waiting.pop("since_ms") > 0
            assert waiting.pop("ends")[0]["end_offset"] == COPIED
            assert waiting == {
                "topic": "t",
                "partition": 0,
                "strategy": "none",
                "members": [first],
                "awaited": [first],
                "until_ms": None,
                "candidate": second,
                "lost": [],
                "command": "kraft elections unclean t-0",
            }
            reasons = await asked.agreed("waiting_election", "leaderless_partitions", "brokers_down")
            (told,) = [each for each in reasons if each["code"] == "waiting_election"]
            assert f"t-0 waits for replica {first} since " in told["summary"]
            assert f"without bound. Known log ends: {second} at {COPIED}." in told["summary"]
            assert "kraft elections unclean t-0 --dry-run" in told["remedy"]

            code, text = await asked.kraft("elections", "unclean", "--all", "--dry-run", "-o", "json")
            (planned,) = json.loads(text)["partitions"]
            assert (code, planned["waiting"]["candidate"], planned["waiting"]["awaited"]) == (0, second, [first])
            code, text = await asked.kraft("elections", "unclean", "t-0", "--dry-run")
            assert (code, text.split("\n")[1].split()[:3]) == (0, ["t-0", str(second), str(COPIED)])
            assert asked.partition(other, "t").leader == -1
            assert (await asked.kraft("elections", "unclean", "nowhere-0", "--dry-run"))[0] == 3
            assert (await asked.kraft("elections", "unclean", "t-0"))[0] == 2, "nobody can be asked, and no --yes"
            assert (await asked.kraft("elections", "unclean", "t-0", "--yes"))[0] == 0

            async def is_led() -> bool:
                return all(asked.partition(node, "t").leader == second for node in (second, other))

            await until(is_led, "a node has not heard of the election")
            code, text = await asked.kraft("elections", "unclean", "t-0", "--dry-run")
            assert (code, f"nothing to do: {second} leads" in text) == (0, True)

            await cluster.start(first)
            await asked.agreed()
            await cluster.stop(second)
            reasons = await asked.agreed("under_replicated_partitions")
            assert "brokers_down" not in {each["code"] for each in reasons}, "it was stopped on purpose"

    trio.run(main)
