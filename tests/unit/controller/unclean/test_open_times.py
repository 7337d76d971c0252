"""kraft/controller/unclean/open_times.py: the wait of *balanced* goes on through fail-overs of the controller."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraft.controller.request_context import ControllerRequestContext
from kraft.controller.unclean.log_comparison import Answer, LogEnd
from kraft.controller.unclean.recovery import Question
from kraft.controller.unclean.replica_questions import ReplicaQuestions
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.world.simulated import Universe
from tests.unit.controller.harness import Rig, running, simulate

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
def test_fail_overs_do_not_prolong_the_wait(fail_overs: int, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_strategy_that_is_set_later_begins_the_wait_then() -> None:
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
            await rig.controller.incremental_alter_configs(request, ControllerRequestContext(1))
            now = rig.world.clock.now()
            await beats(rig, universe, other, 2)
            since = rig.controller.open_times.since(key, epoch, True)
            assert since is not None
            assert now - 1 < since < now + 1
            assert rig.controller.open_times.since(key, epoch + 1, True) is None

    simulate(body)


def test_a_broker_that_may_be_dead_is_looked_for_in_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
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
