"""Expiry and deleted topics reach every group of a shard, in turns: others are served in between, and what they do
counts."""

from __future__ import annotations

import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.coordinator.group.classic.classic_group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.portions import portions
from kraft.coordinator.group.shard_state import GroupShardState, OffsetAndMetadata
from kraft.coordinator.sweeps import WALKS_MAX
from kraft.protocol.error_codes import ErrorCode
from kraft.server.facts.topic_groups import groups_of_topic
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.group_host import GroupHost, TestCaller, commit_request
from tests.unit.coordinator.service import PARTITIONS, Service, run, serving

MANY = 500
TURN = 64
CONFIG = GroupCoordinatorConfig(
    group_initial_rebalance_delay_ms=0, offsets_retention_minutes=1, offsets_retention_check_interval_ms=90_000
)
DELETED = [("t", b"t".ljust(16, b"."))]


def commit_many(draft):
    """Simple groups with one offset each, and one group that has as many."""
    for number in range(MANY):
        committed = OffsetAndMetadata(number, -1, "", draft.wall_ms, topic_id=DELETED[0][1])
        draft.write_offsets(f"group-{number}", [(TopicPartition("t", 0), committed)])
        draft.write_offsets("large", [(TopicPartition("t", number), committed)])


async def filled(service: Service) -> TopicPartition:
    """A shard that holds many offsets, all of them committed now."""
    partition = service.partition("large")
    await service.coordinator.runtime.write(partition.partition, commit_many)
    return partition


def sizes(service: Service, partition: TopicPartition, start: int) -> list[int]:
    return [len(batch.entries) for batch in service.log.batches[partition][start:]]


def test_expiry_processes_a_bounded_part_of_the_shard_per_step():
    async def scenario():
        async with serving(config=CONFIG) as service:
            partition = await filled(service)
            before = len(service.log.batches[partition])
            await trio.sleep(91)
            assert service.coordinator.group_states() == {}
            written = sizes(service, partition, before)
            assert sum(written) == 3 * MANY + 1, "a tombstone for each offset, and for each group"
            assert max(written) <= TURN

    run(scenario)


def test_a_deleted_topic_is_removed_from_a_shard_in_steps():
    async def scenario():
        async with serving() as service:
            partition = await filled(service)
            before = len(service.log.batches[partition])
            service.coordinator.on_topics_deleted(DELETED)
            await trio.testing.wait_all_tasks_blocked()
            assert (await service.coordinator.committed_offsets()) == {}
            written = sizes(service, partition, before)
            assert sum(written) == 2 * MANY
            assert max(written) <= TURN

    run(scenario)


def test_other_tasks_run_between_any_two_steps_of_a_sweep():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            turns: list[str] = []

            async def others() -> None:
                while True:
                    turns.append("others")
                    await trio.lowlevel.checkpoint()

            def walk(state):
                for _ in range(10):
                    yield lambda draft: turns.append("walk")

            nursery.start_soon(others)
            service.coordinator.runtime.walk_all(walk)
            while turns.count("walk") < 10 * PARTITIONS:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
            assert "walk" * (2 * PARTITIONS + 1) not in "".join(turns), (
                "each shard one turn before the others' and one after"
            )

    run(scenario)


def test_chunks_contain_everything_in_order_within_the_limit():
    host = GroupHost()
    host.run(commit_many)
    parts = list(portions(host.state, host.state.groups))
    assert max(map(len, parts)) <= TURN
    named = [entry for part in parts for entry in part]
    assert [group_id for group_id, partition in named if partition is None] == sorted(host.state.groups)
    assert [entry for entry in named if entry[1] is not None] == [
        (group_id, partition)
        for group_id in sorted(host.state.offsets)
        for partition in sorted(host.state.offsets[group_id])
    ]


def test_the_number_of_queued_sweeps_is_limited():
    async def scenario():
        async with serving(lead=False) as service:
            service.log.read_gate = trio.Event()
            await service.lead()
            for number in range(WALKS_MAX + 1):
                service.coordinator.on_topics_deleted([("t", number.to_bytes(16))])
            refused = [note for note in service.world.notes if note["event"] == "coordinator_walk_refused"]
            assert len(refused) == PARTITIONS
            service.log.read_gate.set()

    run(scenario)


def test_offsets_committed_between_the_steps_of_an_expiry_are_kept():
    async def scenario():
        async with serving(config=CONFIG) as service:
            partition = await filled(service)
            await trio.sleep(89)
            service.log.gate = trio.Event()
            await trio.sleep(2)
            async with trio.open_nursery() as nursery:
                # The last of the shard to be looked at, and every group in between has to go.
                nursery.start_soon(
                    service.coordinator.offset_commit, commit_request("large", {("t", 1): 7}), TestCaller(9)
                )
                await trio.testing.wait_all_tasks_blocked()
                service.log.gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert (await service.coordinator.committed_offsets()) == {"large": service.coordinator.offsets_of("large")}
            assert [(key.partition, each.offset) for key, each in service.coordinator.offsets_of("large").items()] == [
                (1, 7)
            ]
            assert partition == service.partition("large")

    run(scenario)


def test_a_sweep_ends_with_leadership_and_the_next_leader_expires_the_rest():
    async def scenario():
        log = MemoryLog()
        async with serving(log, CONFIG) as service:
            partition = await filled(service)
            await trio.sleep(89)
            log.held = True
            await trio.sleep(2)
            service.coordinator.on_resignation(partition.partition, 2)
            await trio.testing.wait_all_tasks_blocked()
            left = log.end_offset(partition)
            log.held = False
            log.replicate(partition)
            await trio.sleep(200)
            assert log.end_offset(partition) == left, "nothing is written without leadership"
        async with serving(log, CONFIG, lead=False) as successor:
            await successor.lead(3)
            assert 0 < len(successor.coordinator.group_states()) < MANY + 1
            await trio.sleep(91)
            assert successor.coordinator.group_states() == {}

    run(scenario)


def test_an_expiry_whose_append_fails_is_repeated():
    async def scenario():
        async with serving(config=CONFIG) as service:
            await filled(service)
            service.log.fail_next = [ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)]
            await trio.sleep(91)
            assert len(service.coordinator.group_states()) == MANY + 1
            assert [note["event"] for note in service.world.notes if note["event"].startswith("coordinator_walk")] == [
                "coordinator_walk_refused"
            ]
            await trio.sleep(90)
            assert service.coordinator.group_states() == {}

    run(scenario)


def test_committed_offsets_of_all_groups_are_collected_in_steps():
    async def scenario():
        async with serving() as service:
            await filled(service)
            others = trio.Event()
            trio.lowlevel.spawn_system_task(_set, others)
            found = await service.coordinator.committed_offsets()
            assert others.is_set(), "served meanwhile"
            assert list(found) == sorted(found)
            assert len(found) == MANY + 1
            assert found["large"] == service.coordinator.offsets_of("large")

    run(scenario)


def test_committed_offsets_that_have_not_changed_are_not_sorted_again():
    async def scenario():
        async with serving() as service:
            await filled(service)
            before = await service.coordinator.committed_offsets()
            other = OffsetAndMetadata(1, -1, "", 0)
            await service.coordinator.runtime.write(
                service.partition("large").partition,
                lambda draft: draft.write_offsets("large", [(TopicPartition("a", 0), other)]),
            )
            after = await service.coordinator.committed_offsets()
            assert [group_id for group_id in after if after[group_id] is not before[group_id]] == ["large"]
            assert next(iter(after["large"])) == TopicPartition("a", 0)
            moved = OffsetAndMetadata(2, -1, "", 0)
            await service.coordinator.runtime.write(
                service.partition("large").partition,
                lambda draft: draft.write_offsets("large", [(TopicPartition("a", 0), moved)]),
            )
            last = await service.coordinator.committed_offsets()
            assert [group_id for group_id in last if last[group_id] is not after[group_id]] == ["large"]
            assert last["large"][TopicPartition("a", 0)].offset == 2

    run(scenario)


def test_groups_subscribed_to_a_topic_are_searched_in_steps():
    async def scenario():
        async with serving() as service:
            await filled(service)
            other = OffsetAndMetadata(1, -1, "", 0)
            await service.coordinator.runtime.write(
                service.partition("other").partition,
                lambda draft: draft.write_offsets("other", [(TopicPartition("u", 0), other)]),
            )
            others = trio.Event()
            trio.lowlevel.spawn_system_task(_set, others)
            found = await groups_of_topic(service.coordinator.snapshots(), "t")
            assert others.is_set(), "served meanwhile"
            assert found == sorted([*(f"group-{number}" for number in range(MANY)), "large"])
            assert await groups_of_topic(service.coordinator.snapshots(), "u") == ["other"]
            assert await groups_of_topic(service.coordinator.snapshots(), "v") == []

    run(scenario)


def test_a_group_with_unreadable_subscriptions_counts_as_subscribed_to_every_topic_while_it_has_members():
    async def scenario():
        groups = {}
        for group_id, members in (("empty", {}), ("unreadable", {"m": None})):
            group = groups[group_id] = ClassicGroup(group_id)
            group.protocol_type, group.members = CONSUMER_PROTOCOL_TYPE, members
        shard = GroupShardState(groups=groups)
        assert await groups_of_topic([shard], "t") == ["unreadable"]

    run(scenario)


async def _set(event: trio.Event) -> None:
    event.set()
