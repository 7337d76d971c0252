"""kraft/controller/unclean/leaderless_since.py: the wait of *balanced* goes on through fail-overs of the controller."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from kraft.common.config.resource_type import ResourceType
from kraft.controller.controller_view import ControllerView
from kraft.controller.request_context import ControllerRequestContext
from kraft.controller.unclean import leaderless_since as open_times
from kraft.controller.unclean.leaderless_since import LeaderlessSince
from kraft.controller.unclean.log_comparison import Answer, LogEnd
from kraft.controller.unclean.recovery import Question
from kraft.controller.unclean.replica_questions import ReplicaQuestions
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.topics_image import TopicIdPartition
from kraft.metadata.publisher import MetadataUpdate
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.world.simulated import Universe
from kraft.world.turns import TURN_ITEMS
from tests.step_work import WorkOfSteps
from tests.unit.controller.harness import Rig, running, simulate
from tests.unit.controller.pure_cluster import TABLE, PureCluster

WAIT_MS = 60_000
SESSION = 9


async def answer(
    self: ReplicaQuestions, brokers: Sequence[BrokerRegistration], questions: Sequence[Question]
) -> list[tuple[Question, Answer]]:
    return [(question, Answer(LogEnd(0, 5), {})) for question in questions]


async def beats(rig: Rig, universe: Universe, broker_id: int, seconds: int) -> None:
    for _ in range(seconds):
        await rig.beat(broker_id)
        await universe.sleep(1)


async def lose_the_leader(rig: Rig, universe: Universe, strategy: str = "balanced") -> int:
    """Broker 1 or 2 hangs, all alone in the in-sync set; the other comes back. Returns that."""
    for broker_id in (1, 2):
        await rig.broker(broker_id)
    await rig.create("t", replicas=2, **{"kraft.unclean.recovery.strategy": strategy})
    leader = int(rig.partition("t").leader)
    other = 3 - leader
    await rig.beat(other, want_fence=True)
    await rig.beat(other)
    rig.hanging.add(9000 + leader)
    await beats(rig, universe, other, SESSION + 3)
    assert rig.image.cluster.brokers[leader].fenced
    assert rig.partition("t").leader == -1
    return other


async def fail_over(rig: Rig, universe: Universe, epoch: int) -> None:
    """Another node is the active controller for a moment."""
    rig.log.lose(7, epoch)
    await universe.sleep(0.1)
    await rig.log.lead(epoch + 1)
    await universe.sleep(0.001)


@pytest.mark.parametrize("fail_overs", [0, 1, 4])
def test_leader_changes_during_recovery_do_not_extend_the_wait(
    fail_overs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReplicaQuestions, "ask", answer)

    async def body(universe: Universe) -> None:
        async with running(universe, unclean_recovery_timeout_ms=WAIT_MS) as rig:
            other = await lose_the_leader(rig, universe)
            for round_ in range(fail_overs):
                await beats(rig, universe, other, 10)
                await fail_over(rig, universe, 2 * round_ + 2)
            await beats(rig, universe, other, 46 - 10 * fail_overs)
            assert rig.partition("t").leader == -1, "it waits as long as it was told to"
            await beats(rig, universe, other, SESSION + 5)
            assert rig.partition("t").leader == other

    simulate(body)


def test_a_recovery_strategy_set_later_starts_the_wait_at_that_time() -> None:
    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            other = await lose_the_leader(rig, universe, "none")
            (key,), epoch = rig.image.topics.leaderless, rig.partition("t").leader_epoch
            assert rig.controller.open_times.since(key, epoch, True) is None
            await beats(rig, universe, other, 20)
            config = AlterableConfig(name="kraft.unclean.recovery.strategy", config_operation=0, value="balanced")
            request = IncrementalAlterConfigsRequest(
                resources=[AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])]
            )
            await rig.controller.requests.incremental_alter_configs(request, ControllerRequestContext(1))
            now = rig.world.clock.now()
            await beats(rig, universe, other, 2)
            since = rig.controller.open_times.since(key, epoch, True)
            assert since is not None
            assert now - 1 < since < now + 1
            assert rig.controller.open_times.since(key, epoch + 1, True) is None

    simulate(body)


def test_one_additional_leaderless_partition_does_not_recheck_waiting_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    work = WorkOfSteps(monkeypatch, (open_times, "is_open"))

    async def body(universe: Universe) -> None:
        async with running(universe) as rig:
            await rig.broker(1)
            await rig.create("many", partitions=2_500)
            await rig.create("one")
            work.begin()
            assert await rig.beat(1, want_fence=True)
            assert len(rig.image.topics.leaderless) == 2_501
            assert work.most["is_open"] == TURN_ITEMS
            await rig.broker(2)
            work.begin()
            await rig.create("another")
            await rig.beat(2, want_fence=True)
            assert len(rig.image.topics.leaderless) == 2_502
            assert work.most["is_open"] == 1

    simulate(body)


class Followed:
    """A cluster, and since when `LeaderlessSince` knows its partitions to wait."""

    def __init__(self) -> None:
        self.cluster = PureCluster(1, 2, 3, elr=True)
        self.clock = Now()
        self.times = LeaderlessSince(lambda image: ControllerView(image, self.cluster.settings, TABLE), self.clock)
        self.published = self.cluster.image

    def publish(self) -> None:
        self.clock.seconds += 1
        after = self.cluster.image
        changes = MetadataChanges.between(self.published, after)
        for _ in self.times.publish(MetadataUpdate(after, changes, 1, 1, 0, 0, False)) or ():
            pass
        self.published = after

    def check(self, waits: dict[TopicIdPartition, tuple[int, bool, float]]) -> None:
        """`waits` is what a look at everything, each time, has found so far."""
        before = dict(waits)
        waits.clear()
        view = self.cluster.view
        for key in view.image.topics.leaderless:
            partition = view.image.topics.by_id[key[0]].partitions[key[1]]
            state = partition.leader_epoch, open_times.is_open(view, key[0], partition)
            known = before.get(key)
            waits[key] = known if known is not None and known[:2] == state else (*state, self.clock.seconds)
        assert self.times._since == waits


class Now:
    seconds = 0.0

    def now(self) -> float:
        return self.seconds


def change(cluster: PureCluster, source: random.Random, number: int) -> None:
    """Something that may make partitions wait, or end that, or change for what they wait."""
    names = [topic.name for topic in cluster.image.topics.topics_by_name()]
    active = [broker_id for broker_id in (1, 2, 3) if cluster.view.is_active(broker_id)]
    broker_id, what = source.choice((1, 2, 3)), source.randrange(9)
    if what == 0 and active:
        cluster.topic(f"t{number}", *([source.choice(active)] for _ in range(3)))
    elif what == 1:
        cluster.fence(broker_id)
    elif what == 2:
        cluster.unfence(broker_id)
    elif what == 3:
        cluster.register(broker_id, incarnation=number)
    elif what == 4:
        cluster.configure(ResourceType.BROKER, "", kraft_unclean_recovery_strategy=source.choice(("none", "balanced")))
    elif what == 5 and names:
        strategy = source.choice(("none", "balanced"))
        cluster.configure(ResourceType.TOPIC, source.choice(names), kraft_unclean_recovery_strategy=strategy)
    elif what == 6 and names:
        enabled = source.choice(("true", "false"))
        cluster.configure(ResourceType.TOPIC, source.choice(names), unclean_leader_election_enable=enabled)
    elif what == 7 and names:
        cluster.replay(RemoveTopicRecord(topic_id=cluster.image.topics.id_by_name[source.choice(names)]))
    elif what == 8:
        level = source.choice((0, 1))
        cluster.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=level))


@pytest.mark.parametrize("seed", range(20))
def test_only_partitions_that_may_have_changed_are_checked(seed: int) -> None:
    source, followed = random.Random(seed), Followed()
    waits: dict[TopicIdPartition, tuple[int, bool, float]] = {}
    for number in range(80):
        change(followed.cluster, source, number)
        if source.random() < 0.7:
            followed.publish()
            followed.check(waits)


def test_a_new_controller_finds_partitions_that_became_leaderless_before() -> None:
    followed = Followed()
    followed.cluster.topic("t", [1])
    followed.cluster.fence(1)
    followed.published = followed.cluster.image
    followed.publish()
    followed.check({})


def test_a_possibly_dead_broker_is_probed_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaQuestions, "ask", answer)

    async def body(universe: Universe) -> None:
        async with running(universe, unclean_recovery_timeout_ms=10 * WAIT_MS) as rig:
            other = await lose_the_leader(rig, universe)
            await beats(rig, universe, other, SESSION)
            rig.probes.clear()
            await beats(rig, universe, other, 120)
            assert 10 <= rig.probes.count(9000 + 3 - other) <= 20
            rig.hanging.clear()
            rig.refusing.add(9000 + 3 - other)
            await beats(rig, universe, other, 10)
            assert rig.partition("t").leader == other, "it is found dead in the next round"

    simulate(body)
