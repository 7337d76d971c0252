"""kraft/controller/unclean/leaderless_watch.py: what it tells, and when it looks again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import trio

from kraft.controller.brokers.broker_watch import BrokerWatch, connect_probe
from kraft.controller.brokers.heartbeat_manager import BrokerHeartbeatManager
from kraft.controller.unclean.election_facts import Waiting
from kraft.controller.unclean.leaderless_watch import WAITS_TOLD_MAX, LeaderlessWatch
from kraft.controller.unclean.log_comparison import Answer, LogEnd
from kraft.controller.unclean.recovery import Question, UncleanRecoveries
from kraft.controller.unclean.replica_questions import Answers, ReplicaQuestions
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.controller.pure_cluster import PureCluster


class EqualLogs(ReplicaQuestions):
    """Every live replica has the same ten records."""

    async def ask(self, brokers: Sequence[BrokerRegistration], questions: Sequence[Question]) -> Answers:
        return [(each, Answer(LogEnd(0, 10), {})) for each in questions]


def test_all_leaderless_partitions_are_logged_even_without_metadata_changes() -> None:
    count = 2 * WAITS_TOLD_MAX + 5
    cluster = waiting_cluster(count)
    told: list[Waiting] = []

    async def fate(universe: Universe) -> None:
        world = universe.world_for("controller")
        looking = watch(world, cluster, told.append)
        for seconds in (0.0, 4.0, 2.0):
            await universe.sleep(seconds)
            await looking.look()
        assert len(told) == WAITS_TOLD_MAX
        for _ in range(12):
            await universe.sleep(0.25)
            await looking.look()

    Universe(3).run(fate, seconds_max=100)
    assert sorted(each.key[1] for each in told) == list(range(count)), "each once"


def waiting_cluster(count: int) -> PureCluster:
    """So many partitions wait for broker 2: a member of each, which restarted uncleanly and went again."""
    cluster = PureCluster(1, 2, 3, elr=True)
    cluster.topic("t", *count * [[1, 2, 3]], min_insync_replicas="2")
    for broker in (3, 2, 1):
        cluster.fence(broker)
    for broker in (2, 1):
        cluster.register(broker, incarnation=cluster.epoch(broker) % 200)
        cluster.unfence(broker)
    cluster.fence(2)
    return cluster


def watch(world: SimulatedWorld, cluster: PureCluster, tell: Callable[[Waiting], None]) -> LeaderlessWatch:
    async def write(operation: Any, appended: Any = None) -> Any:
        await trio.lowlevel.checkpoint()
        return cluster.apply(operation(cluster.view))

    heartbeats = BrokerHeartbeatManager(world.clock.now, 9_000)
    brokers = BrokerWatch(cluster.settings, heartbeats, world.clock, connect_probe(world.network), write, None)
    questions = EqualLogs(world, "PLAINTEXT", None)
    return LeaderlessWatch(
        write,
        lambda: cluster.view,
        world.clock,
        questions,
        brokers,
        lambda recovered: None,
        tell,
        UncleanRecoveries(300.0),
    )
