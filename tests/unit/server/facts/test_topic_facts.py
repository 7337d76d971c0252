"""What a node tells of topics for lists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from kraft.server.facts import topic_facts
from kraft.server.facts.topic_facts import gather_topic_facts, list_topics
from kraft.world.turns import TURN_ITEMS, TURN_PARTITIONS


class Partitions(dict[int, Any]):
    """Those of a topic that says how often one was looked at."""

    def __init__(self, count: int, looked_at: list[int]) -> None:
        super().__init__((index, SimpleNamespace(replicas=(1, 2))) for index in range(count))
        self._looked_at = looked_at

    def get(self, index: int, default: Any = None) -> Any:
        self._looked_at.append(index)
        return super().get(index, default)

    def __iter__(self) -> Any:
        self._looked_at.extend(super().keys())
        return super().__iter__()


def image_of(topics: int, partitions: int, looked_at: list[int]) -> Any:
    made = {
        name: SimpleNamespace(name=name, id=bytes(16), partitions=Partitions(partitions, looked_at))
        for name in (f"t{number:05d}" for number in range(topics))
    }
    return SimpleNamespace(topics_by_name=made.values, by_name=made.get)


def test_the_topic_list_reads_one_partition_of_each_topic() -> None:
    looked_at: list[int] = []
    listed = trio.run(list_topics, image_of(10, 100, looked_at), None)
    assert [(each.partitions_count, each.replication_factor) for each in listed] == [(100, 2)] * 10
    assert looked_at == [0] * 10


def test_topics_without_describe_permission_are_not_listed() -> None:
    listed = trio.run(list_topics, image_of(3, 1, []), lambda name: name != "t00001")
    assert [each.name for each in listed] == ["t00000", "t00002"]


async def turns_during(work: Any) -> tuple[Any, int]:
    """What it returns, and how many turns somebody else has had meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        result = await work
        nursery.cancel_scope.cancel()
    return result, turns


def test_many_topics_are_listed_in_steps() -> None:
    async def main() -> None:
        listed, turns = await turns_during(list_topics(image_of(5 * TURN_ITEMS, 1, []), None))
        assert len(listed) == 5 * TURN_ITEMS
        assert turns >= 4

    trio.run(main)


def test_responses_of_brokers_of_other_releases_may_have_more_or_fewer_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = {"partition": 0, "local_bytes": 1, "remote_bytes": 2, "copy_lag_bytes": 3, "copy_lag_segments": 4}
    documents = {
        1: {"records": 5},
        2: {"records": 6, "a later sum": 7, "tiers": [tier | {"last_error": None, "new": 8}]},
    }

    async def ask(_: object, broker_id: int, *__: object) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"t00000": documents[broker_id]}

    monkeypatch.setattr(topic_facts, "ask_statuses", ask)
    live = SimpleNamespace(fenced=False)
    image = SimpleNamespace(topics=image_of(1, 1, []), cluster=SimpleNamespace(brokers={1: live, 2: live}))
    node: Any = SimpleNamespace(
        shared=SimpleNamespace(loader=SimpleNamespace(image=image)),
        config=SimpleNamespace(node_id=3),
        remote=None,
        world=SimpleNamespace(clock=SimpleNamespace(move_on_after=trio.move_on_after)),
    )

    async def main() -> Any:
        return await gather_topic_facts(node, ["t00000"])

    [found] = trio.run(main).topics
    assert (found.records, found.lag) == (11, 0)
    assert [(each.partition, each.remote_bytes, each.last_error) for each in found.tiers] == [(0, 2, None)]


def test_facts_of_many_partitions_are_summed_in_steps() -> None:
    """As those of a page of 50 topics."""
    log = SimpleNamespace(size=10, log_start_offset=1, log_end_offset=4)
    partition = SimpleNamespace(log=log, is_leader=True, tier=None, index=0)
    image = SimpleNamespace(
        topics=image_of(50, 100, []), cluster=SimpleNamespace(brokers={1: SimpleNamespace(fenced=False)})
    )
    node: Any = SimpleNamespace(
        shared=SimpleNamespace(loader=SimpleNamespace(image=image)),
        broker=SimpleNamespace(replicas=SimpleNamespace(find=lambda topic, index: partition)),
        history=None,
        config=SimpleNamespace(node_id=1),
    )

    async def main() -> None:
        names = [f"t{number:05d}" for number in range(50)]
        page, turns = await turns_during(gather_topic_facts(node, names))
        assert [(each.records, each.leader_bytes, each.groups, each.lag) for each in page.topics] == [
            (300, 1000, 0, 0)
        ] * 50
        assert turns >= 50 * 100 // TURN_PARTITIONS - 1

    trio.run(main)
