"""Steps that hold up the loop: counted, the longest by task, told at a bounded rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kraft.common.logging import Loggers
from kraft.common.metrics import MetricsRegistry, render_prometheus
from kraft.server.stall_monitor import TOLD_PERIOD_SECONDS, StallMonitor
from kraft.world.simulated import SimulatedWorld, Universe


class SetClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


def watched(body: Any) -> tuple[StallMonitor, list[Mapping[str, Any]]]:
    made: list[StallMonitor] = []
    universe = Universe(1)

    async def main(universe: Universe) -> None:
        world = universe.world_for(1)
        monitor = StallMonitor(world.clock, Loggers(world.log_sink, world.clock).get("loop"), lambda: "Fetch of x")
        made.append(monitor)
        with world.loop.watch(monitor):
            await body(world)

    universe.run(main)
    return made[0], list(universe.world_of(1).log)


def test_stall_metrics_have_a_histogram_and_the_longest_step_of_each_task() -> None:
    async def body(world: SimulatedWorld) -> None:
        for task, seconds in (("serve", 0.004), ("serve", 0.03), ("serve", 0.0001), ("load", 0.6)):
            world.loop.stall(task, seconds)

    monitor, _ = watched(body)
    registry = MetricsRegistry()
    monitor.register(registry)
    text = "".join(render_prometheus(registry.families()))
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["kraft_loop_step_seconds_bucket", "0.005"] == 1
    assert samples["kraft_loop_step_seconds_bucket", "0.05"] == 2
    assert samples["kraft_loop_step_seconds_count",] == 3
    assert samples["kraft_loop_longest_step_seconds", "serve"] == 0.03
    assert samples["kraft_loop_longest_step_seconds", "load"] == 0.6


def test_long_stalls_are_logged_once_per_period_with_the_number_left_out() -> None:
    async def body(world: SimulatedWorld) -> None:
        world.loop.stall("serve", 0.049)
        for _ in range(5):
            world.loop.stall("serve", 0.051)
        await world.clock.sleep(TOLD_PERIOD_SECONDS + 0.1)
        world.loop.stall("load", 2.0)

    _, lines = watched(body)
    told = [(line["event"], line["task"], line["ms"], line.get("left_out")) for line in lines]
    assert told == [("event loop blocked", "serve", 51, None), ("event loop blocked", "load", 2000, 4)]
    assert lines[0]["last_request"] == "Fetch of x"


def test_the_idle_share_covers_the_last_minute() -> None:
    clock: Any = SetClock()
    monitor = StallMonitor(clock, Loggers(lambda line: None, clock).get("loop"), lambda: None)
    shares = []
    for now, idle in ((10, 10), (40, 25), (70, 25), (100, 55), (100, 55), (101, 56), (1000, 56)):
        clock.seconds, monitor.idle_seconds = now, idle
        shares.append(round(monitor.idle_share(), 3))
    assert shares == [
        1.0,
        0.625,
        round(15 / 60, 3),
        round(30 / 60, 3),
        round(30 / 60, 3),
        round(31 / 61, 3),
        round(1 / 900, 3),
    ]
