"""What a scrape costs, and in which parts it comes."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.server.metrics import node_metrics, partition_metrics
from kraft.server.metrics.group_lags import GroupLags
from kraft.server.metrics.latest import KEPT_SECONDS
from kraft.server.metrics.node_metrics import NodeMetrics
from kraft.server.metrics.partition_metrics import PartitionSums
from kraft.world.simulated import Universe
from tests.unit.server.brokers import simulate
from tests.unit.server.nodes import Running, configuration, create, running


def metrics(run: Running) -> NodeMetrics:
    return NodeMetrics(run.node, GroupLags(run.node, run.node.remote))


@pytest.mark.parametrize(("partitions_max", "walks"), [(0, [1, 1, 2]), (1000, [2, 3, 4])])
def test_many_partitions_are_visited_once_for_all_scrapes_within_a_second(
    monkeypatch: pytest.MonkeyPatch, partitions_max: int, walks: list[int]
) -> None:
    """Of few, every scrape tells what is."""
    monkeypatch.setattr(partition_metrics, "EACH_MAX", partitions_max)
    walk, count, seen = node_metrics.sum_partitions, 0, []

    async def counting(*arguments: Any) -> PartitionSums:
        nonlocal count
        count += 1
        return await walk(*arguments)

    monkeypatch.setattr(node_metrics, "sum_partitions", counting)

    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            await create(run.client, "t")
            scraped = metrics(run)
            async with trio.open_nursery() as scraping_nursery:
                scraping_nursery.start_soon(scraped.render)
                scraping_nursery.start_soon(scraped.render)
            seen.append(count)
            await scraped.render("partition")
            seen.append(count)
            await trio.sleep(1.1 * KEPT_SECONDS)
            await scraped.render()
            seen.append(count)

    simulate(play)
    assert seen == walks


def test_a_large_metrics_text_is_sent_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is joined in a step of its own."""
    monkeypatch.setattr(node_metrics, "PART_CHARS", 4000)
    monkeypatch.setattr(node_metrics, "SERIES_A_TURN", 10)

    async def play(universe: Universe) -> None:
        async with running(universe, configuration()) as run:
            parts = await metrics(run).render()
            assert len(parts) > 5
            assert all(4000 <= len(part) < 8000 for part in parts[:-1])
            lines = "".join(parts).splitlines()
            assert lines[0].startswith("# HELP ")
            assert sum(line.startswith("kafka_brokers ") for line in lines) == 1

    simulate(play)
