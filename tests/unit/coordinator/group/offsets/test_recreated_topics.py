"""Offsets of a topic that was deleted, where the coordinator died before it had forgotten them: nobody gets them,
and they go."""

from __future__ import annotations

import pytest
import trio

from kraft.common.ids import TopicPartition
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.deletion import forgetting
from kraft.coordinator.group.shard_state import OffsetAndMetadata
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.group.service.coordinated_groups import stable_member
from tests.unit.coordinator.group_host import GroupHost, TestCaller, commit_request
from tests.unit.coordinator.service import CALLER, Service, run, serving

CONFIG = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0, offsets_retention_check_interval_ms=60_000)


async def offsets(service: Service, version: int, *, everything: bool = False, stable: bool = False) -> dict[str, int]:
    """What group g has committed for partition 0 of t, as OffsetFetch tells; by partition index."""
    if version < 8:
        named = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        request = OffsetFetchRequest(group_id="g", topics=None if everything else named, require_stable=stable)
    else:
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        if version >= 10:
            topic = OffsetFetchRequestTopics(topic_id=service.topics.topic_id("t") or b"", partition_indexes=[0])
        wanted = [topic]
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id="g", topics=None if everything else wanted)], require_stable=stable
        )
    response = await service.coordinator.offset_fetch(request, TestCaller(version))
    topics = response.topics if version < 8 else response.groups[0].topics
    return {topic.name: partition.committed_offset for topic in topics for partition in topic.partitions}


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize("stable", [False, True])
def test_an_offset_fetch_by_name_refers_to_the_current_topic_of_that_name(version, stable):
    async def scenario():
        async with serving() as service:
            await service.coordinator.offset_commit(commit_request("g", {("t", 0): 5}), CALLER)
            assert await offsets(service, version, stable=stable) == {"t": 5}
            service.topics.delete_and_recreate()
            assert await offsets(service, version, stable=stable) == {"t": -1}
            await service.coordinator.offset_commit(commit_request("g", {("t", 0): 1}), CALLER)
            assert await offsets(service, version, stable=stable) == {"t": 1}

    run(scenario)


@pytest.mark.parametrize("version", range(2, 11))
def test_a_fetch_of_all_offsets_returns_only_existing_topics(version):
    async def scenario():
        async with serving() as service:
            await service.coordinator.offset_commit(commit_request("g", {("t", 0): 5, ("u", 0): 6}), CALLER)
            assert await offsets(service, version, everything=True) == {"t": 5, "u": 6}
            service.topics.delete_and_recreate()
            assert await offsets(service, version, everything=True) == {}
            await service.coordinator.offset_commit(commit_request("g", {("u", 0): 1}), CALLER)
            assert await offsets(service, version, everything=True) == {"u": 1}

    run(scenario)


def test_offsets_of_a_topic_name_missing_from_the_metadata_are_kept():
    """A broker may be behind with the metadata; by name, an offset is told rather than denied."""

    async def scenario():
        async with serving() as service:
            await service.coordinator.offset_commit(commit_request("g", {("t", 0): 5}), CALLER)
            service.topics.names.remove("t")
            assert await offsets(service, 7) == {"t": 5}

    run(scenario)


def test_a_new_coordinator_drops_offsets_of_topics_deleted_before_it_loaded():
    async def scenario():
        log = MemoryLog()
        async with serving(log, CONFIG) as service:
            member_id = await stable_member(service)
            await service.coordinator.offset_commit(commit_request("g", {("t", 0): 5}, member_id, 1), CALLER)
            await service.coordinator.offset_commit(commit_request("h", {("t", 0): 5, ("u", 0): 6}), CALLER)
            topics = service.topics
        topics.delete_and_recreate()
        async with serving(log, CONFIG, lead=False) as successor:
            successor.topics.padding = topics.padding
            await successor.lead(2)
            await successor.coordinator.offset_commit(commit_request("h", {("u", 0): 7}), CALLER)
            await trio.sleep(61)
            kept = {
                group: [(key.topic, each.offset) for key, each in known.items()]
                for group, known in (await successor.coordinator.committed_offsets()).items()
            }
            assert kept == {"h": [("u", 7)]}

    run(scenario)


def test_two_deleted_topics_of_one_name_are_cleaned_up_together():
    host = GroupHost()
    for partition, topic_id in enumerate((b"1" * 16, b"2" * 16, b"3" * 16, bytes(16))):
        committed = OffsetAndMetadata(7, -1, "", 0, topic_id=topic_id)
        host.run(
            lambda draft, index=partition, value=committed: draft.write_offsets(
                "g", [(TopicPartition("t", index), value)]
            )
        )
    host.walk(forgetting([("t", b"1" * 16), ("t", b"2" * 16)]))
    assert [key.partition for key in host.offsets("g")] == [2]
