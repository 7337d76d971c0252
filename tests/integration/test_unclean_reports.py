"""What an unclean election cost is told whole by every node, after fail-overs too: three nodes in one process, a
leader lost with records nobody else has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from confluent_kafka.admin import NewTopic
from kraft_http.ports import UncleanElectionFacts
from kraft_http.routers.elections import shown

from kraft.server.facts.loss_facts import gather_unclean_elections
from kraft.testing.foreign.librdkafka import AdminClient, Producer
from kraft.testing.local_cluster import LocalCluster

TOPIC = "lossy"
COPIED, LOST = 20, 7
LOOKS_MAX = 1200
SETTINGS = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "default.replication.factor": "3",
}


def create(bootstrap: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, 1, 2, config={"min.insync.replicas": "1", **config})])[TOPIC].result(30)


def write(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    failures: list[Any] = []
    for number in range(count):
        producer.produce(TOPIC, str(number), on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.flush(30)
    assert failures == []


async def until(condition: Callable[[], Awaitable[Any]], what: str) -> None:
    for _ in range(LOOKS_MAX):
        if await condition():
            return
        await trio.sleep(0.05)
    raise TimeoutError(what)


def partition(cluster: LocalCluster, node: int) -> Any:
    return cluster.node(node).shared.loader.image.topics.by_name(TOPIC).partitions[0]  # type: ignore[union-attr]


async def reports(cluster: LocalCluster, node: int) -> list[UncleanElectionFacts]:
    return await gather_unclean_elections(cluster.node(node).shared.loader.image, TOPIC)


@pytest.mark.parametrize(
    "config", [{"unclean.leader.election.enable": "true"}, {"kraft.unclean.recovery.strategy": "aggressive"}]
)
def test_every_node_reports_exactly_the_lost_records(config: dict[str, str]) -> None:
    async def main() -> None:
        async with LocalCluster(3, settings=SETTINGS) as cluster:
            await trio.to_thread.run_sync(lambda: create(cluster.bootstrap, **config))
            await trio.to_thread.run_sync(write, cluster.bootstrap, COPIED)
            first, second = partition(cluster, 1).replicas
            (other,) = {1, 2, 3} - {first, second}

            async def in_sync(*isr: int) -> bool:
                return set(partition(cluster, other).isr) == {*isr}

            async def is_led_again() -> bool:
                return all(partition(cluster, node).leader == second for node in (second, other))

            async def is_complete() -> bool:
                found = [told for node in cluster.node_ids for told in await reports(cluster, node)]
                return all(any(loss.end_offset for loss in told.report.losses.values()) for told in found)

            await cluster.kill(second)
            await until(lambda: in_sync(first), "the dead follower stays in sync")
            await trio.to_thread.run_sync(write, cluster.bootstrap, LOST)
            await cluster.kill(first)
            await cluster.start(second)
            await until(is_led_again, "no unclean election")
            for node in (second, other):
                (told,) = await reports(cluster, node)
                assert (told.report.election["leader"], told.report.outstanding, told.gone) == (second, (first,), ())
            await cluster.start(first)
            await until(lambda: in_sync(second, first), "the former leader does not follow")
            await until(is_complete, "what was lost is not told")
            controller = cluster.node(other).shared.raft.leader_and_epoch.leader_id
            await cluster.kill(controller)
            await cluster.start(controller)
            for node in cluster.node_ids:
                (told,) = await reports(cluster, node)
                document = shown(told)
                (loss,) = document.losses
                assert (loss.replica, loss.state, loss.start_offset, loss.end_offset, document.complete) == (
                    first,
                    "lost",
                    COPIED,
                    COPIED + LOST,
                    True,
                )
                assert document.end_offset == (COPIED if document.strategy else None)

    trio.run(main)
