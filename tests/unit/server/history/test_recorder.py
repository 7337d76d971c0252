"""What a node counts as new between two samples of its history."""

from __future__ import annotations

import trio

from kraft.server.history.history import STEP_SECONDS
from kraft.server.metrics.group_lags import GroupLags
from kraft.world.simulated import Universe
from tests.unit.server.brokers import batch, simulate
from tests.unit.server.nodes import Running, configuration, create, produce, running


def record(run: Running) -> None:
    run.node.record_history(GroupLags(run.node, run.node.remote))


def counted(run: Running, name: str) -> list[float]:
    assert run.node.history is not None
    series = run.node.history.of_topic("t")["series"]
    return [STEP_SECONDS * rate for rate in series.get(name, [])]


def test_records_of_a_topic_created_after_the_last_sample_are_counted() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            record(run)
            await trio.sleep(2.5 * STEP_SECONDS)
            await create(run.client, "t")
            await produce(run.client, "t", 0, b"a", b"b", b"c")
            await trio.sleep(STEP_SECONDS)
            assert sum(counted(run, "records_in")) == 3
            assert sum(counted(run, "bytes_in")) == len(batch(b"a", b"b", b"c"))

    simulate(play)


def test_records_on_disk_at_startup_are_not_counted_as_new() -> None:
    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await create(run.client, "t")
            await produce(run.client, "t", 0, b"a", b"b", b"c")
            await run.stop()
        async with running(universe, configuration()) as run:
            broker = run.node.broker
            assert broker is not None
            replicas, broker.replicas = broker.replicas, []  # type: ignore[misc, assignment]  # Not yet known of.
            record(run)
            await trio.sleep(1.5 * STEP_SECONDS)
            broker.replicas = replicas  # type: ignore[misc]
            await produce(run.client, "t", 0, b"d")
            await trio.sleep(2 * STEP_SECONDS)
            assert sum(counted(run, "records_in")) == 0
            await produce(run.client, "t", 0, b"e", b"f")
            await trio.sleep(STEP_SECONDS)
            assert sum(counted(run, "records_in")) == 2

    simulate(play)
