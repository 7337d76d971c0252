"""The runtime: what clients are told while partitions come and go, are still being read, or wait for their
followers."""

from __future__ import annotations

import gc
import weakref

import trio
import trio.testing

from kraft.common.errors import ApiError, NotLeader
from kraft.common.ids import TopicPartition
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.group_host import TestCaller, commit_request, join_request, sync_request
from tests.unit.coordinator.service import (
    CALLER,
    PARTITIONS,
    Service,
    ask,
    code_of,
    commit,
    committed,
    neighbour,
    run,
    serving,
)


def test_a_loading_coordinator_answers_with_an_error_and_accepts_heartbeats():
    async def scenario():
        async with serving(lead=False) as service:
            service.log.read_gate = trio.Event()
            await service.lead()
            assert code_of(await commit(service, 1)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert (
                await service.coordinator.heartbeat(
                    HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), CALLER
                )
            ).error_code == 0
            assert (
                await service.coordinator.list_groups(ListGroupsRequest(), CALLER)
            ).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            service.log.read_gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert code_of(await commit(service, 1)) == 0

    run(scenario)


def test_a_partition_not_led_by_this_broker_is_not_coordinated_here():
    async def scenario():
        async with serving(lead=False) as service:
            assert code_of(await commit(service, 1)) == ErrorCode.NOT_COORDINATOR

    run(scenario)


def test_before_startup_the_coordinator_is_not_available():
    async def scenario():
        service = Service(MemoryLog())
        service.coordinator.on_election(0, 1)
        assert code_of(await commit(service, 1)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        async with trio.open_nursery() as nursery:
            await nursery.start(service.coordinator.run)
            await trio.testing.wait_all_tasks_blocked()
            assert service.coordinator.runtime.is_active(0)
            nursery.cancel_scope.cancel()

    run(scenario)


def test_losing_a_partition_fails_all_waiting_requests():
    async def scenario():
        config = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=3000)
        async with serving(config=config) as service, trio.open_nursery() as nursery:
            joining = ask(nursery, service.coordinator.join_group(join_request("g"), TestCaller(3)))
            service.log.held = True
            committing = ask(nursery, commit(service, 1, neighbour(service, "g")))
            await trio.testing.wait_all_tasks_blocked()
            service.coordinator.on_resignation(service.partition("g").partition, 2)
            await trio.testing.wait_all_tasks_blocked()
            assert joining.response.error_code == ErrorCode.NOT_COORDINATOR
            assert code_of(committing.response) == ErrorCode.NOT_COORDINATOR
            assert code_of(await commit(service, 1)) == ErrorCode.NOT_COORDINATOR

    run(scenario)


def test_when_leadership_is_lost_during_an_append_resignation_answers_its_request():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            service.log.held, service.log.takes_at_once = True, False

            def not_led(partition):
                raise NotLeader("moved")

            service.log.high_watermark = not_led
            pending = ask(nursery, commit(service, 1))
            await trio.testing.wait_all_tasks_blocked()
            assert not pending.answered
            service.coordinator.on_resignation(service.partition("g").partition, 2)
            await trio.testing.wait_all_tasks_blocked()
            assert code_of(pending.response) == ErrorCode.NOT_COORDINATOR

    run(scenario)


def test_the_loaded_state_of_a_partition_is_dropped_with_leadership():
    """A partition may never come back."""

    async def scenario():
        async with serving() as service:
            await commit(service, 1)
            partition = service.partition("g").partition
            read = weakref.ref(service.coordinator.runtime.read(partition, lambda state: state.offsets))
            service.coordinator.on_resignation(partition, 2)
            await trio.testing.wait_all_tasks_blocked()
            gc.collect()
            assert read() is None

    run(scenario)


def test_only_a_newer_leader_epoch_reloads_a_partition():
    async def scenario():
        async with serving() as service:
            partition = service.partition("g").partition
            service.coordinator.on_resignation(partition, 1)
            assert service.coordinator.runtime.is_active(partition)
            service.coordinator.on_election(partition, 1)
            assert service.coordinator.runtime.is_active(partition), "the same epoch is no news"
            await commit(service, 1)
            service.coordinator.on_election(partition, 5)
            await trio.testing.wait_all_tasks_blocked()
            await commit(service, 2)
            assert service.log.epochs[-2:] == [1, 5]

    run(scenario)


def test_a_new_epoch_loads_the_log_only_after_the_old_epoch_stopped_appending():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            await commit(service, 1)
            partition = service.partition("g").partition
            service.log.gate = trio.Event()
            pending = ask(nursery, commit(service, 2))
            await trio.testing.wait_all_tasks_blocked()
            service.coordinator.on_resignation(partition, 2)
            service.coordinator.on_election(partition, 3)
            service.log.gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert code_of(pending.response) == ErrorCode.NOT_COORDINATOR
            assert await committed(service) == 1
            assert service.log.epochs == [1]

    run(scenario)


def test_a_new_epoch_waits_for_an_append_that_cannot_be_cancelled():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            await commit(service, 1)
            real_append = service.log.append
            writing = trio.Event()

            async def append(*arguments):
                with trio.CancelScope(shield=True):
                    await writing.wait()
                    return await real_append(*arguments)

            service.log.append, service.log.takes_at_once = append, False
            pending = ask(nursery, commit(service, 2))
            await trio.testing.wait_all_tasks_blocked()
            partition = service.partition("g").partition
            for epoch in (2, 3):
                service.coordinator.on_resignation(partition, epoch)
                service.coordinator.on_election(partition, epoch)
            await trio.testing.wait_all_tasks_blocked()
            assert not service.coordinator.runtime.is_active(partition)
            assert code_of(pending.response) == ErrorCode.NOT_COORDINATOR
            writing.set()
            await trio.testing.wait_all_tasks_blocked()
            assert await committed(service) == 2, "it landed, so the successor has read it"

    run(scenario)


def test_another_node_rebuilds_groups_and_offsets_from_the_log():
    async def scenario():
        log = MemoryLog()
        async with serving(log) as service, trio.open_nursery() as nursery:
            joined = await service.coordinator.join_group(join_request("g"), TestCaller(3))
            syncing = ask(
                nursery,
                service.coordinator.sync_group(
                    sync_request("g", joined.member_id, 1, {joined.member_id: b"all"}), TestCaller(3)
                ),
            )
            await trio.testing.wait_all_tasks_blocked()
            assert syncing.response.assignment == b"all"
            request = commit_request("g", {("t", 0): 42}, joined.member_id, 1)
            assert code_of(await service.coordinator.offset_commit(request, CALLER)) == 0
        async with serving(log) as successor:
            await successor.lead(2)
            assert successor.coordinator.group_states() == {"g": "Stable"}
            assert await committed(successor) == 42
            beat = await successor.coordinator.heartbeat(
                HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id), CALLER
            )
            assert beat.error_code == 0

    run(scenario)


def test_a_new_leader_does_not_answer_before_all_loaded_records_are_committed():
    async def scenario():
        log = MemoryLog()
        async with serving(log) as service:
            await commit(service, 1)
            log.held = True
            with trio.move_on_after(1):
                await commit(service, 2)
        log.watermarks[TopicPartition("__consumer_offsets", service.partition("g").partition)] = 1
        async with serving(log) as successor:
            await successor.lead(2)
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
            assert (await successor.coordinator.offset_fetch(request, CALLER)).groups[
                0
            ].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            log.replicate(successor.partition("g"))
            await trio.testing.wait_all_tasks_blocked()
            assert await committed(successor) == 2

    run(scenario)


def test_a_new_leader_waits_for_a_silent_follower_before_it_returns_offsets():
    """Also past the commit timeout: only the high watermark says that what was acknowledged is all there."""

    async def scenario():
        log = MemoryLog()
        async with serving(log) as service, trio.open_nursery() as nursery:
            await commit(service, 1)
            log.held = True
            ask(nursery, commit(service, 2))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        partition = service.partition("g")
        log.watermarks[partition] = 1
        async with serving(log) as successor:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
            for _ in range(3):
                await trio.sleep(5.1)
                assert (await successor.coordinator.offset_fetch(request, CALLER)).groups[
                    0
                ].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                beat = await successor.coordinator.heartbeat(
                    HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), CALLER
                )
                assert beat.error_code == 0, "no session runs meanwhile"
            waits = [note for note in successor.world.notes if note["event"] == "coordinator_waits_for_replication"]
            assert [(note["partition"], note["offset"]) for note in waits] == [(str(partition), 1)], "told once"
            log.replicate(partition)
            await trio.testing.wait_all_tasks_blocked()
            assert await committed(successor) == 2

    run(scenario)


def test_a_leader_that_waits_for_its_follower_can_lose_leadership():
    async def scenario():
        log = MemoryLog()
        async with serving(log) as service:
            await commit(service, 1)
            partition = service.partition("g")
        log.watermarks[partition] = 0
        async with serving(log) as successor:
            await trio.sleep(5.1)
            assert not successor.coordinator.runtime.is_active(partition.partition)
            successor.coordinator.on_resignation(partition.partition, 2)
            assert code_of(await commit(successor, 2)) == ErrorCode.NOT_COORDINATOR
            log.replicate(partition)
            successor.coordinator.on_election(partition.partition, 3)
            await trio.testing.wait_all_tasks_blocked()
            assert await committed(successor) == 1

    run(scenario)


def test_loading_is_retried_until_it_succeeds():
    async def scenario():
        log = MemoryLog()
        real_read = log.read
        failures = [OSError("I/O error"), ApiError(ErrorCode.KAFKA_STORAGE_ERROR)]

        async def read(partition, from_offset):
            if partition.partition == 0 and failures:
                raise failures.pop(0)
            return await real_read(partition, from_offset)

        log.read = read
        async with serving(log) as service:
            assert not service.coordinator.runtime.is_active(0)
            await trio.sleep(2)
            assert service.coordinator.runtime.is_active(0)
            assert [note["event"] for note in service.world.notes].count("coordinator_load_failed") == 2

    run(scenario)


def test_losing_a_partition_before_it_is_loaded_has_no_effect():
    async def scenario():
        log = MemoryLog()
        subscribe = log.on_high_watermark

        def not_led(partition, listener):
            raise NotLeader("not yet")

        log.on_high_watermark = not_led
        async with serving(log) as service:
            assert not service.coordinator.runtime.is_active(0)
            service.coordinator.on_resignation(1, 2)
            log.on_high_watermark = subscribe
            await trio.sleep(1)
            assert [service.coordinator.runtime.is_active(partition) for partition in range(PARTITIONS)] == [
                True,
                False,
                True,
                True,
            ]

    run(scenario)


def test_offsets_of_deleted_topics_are_removed_from_shards_that_were_loading_too():
    async def scenario():
        log = MemoryLog()
        async with serving(log) as service:
            for group in ("g", "h", "i"):
                await commit(service, 3, group)
        async with serving(log, lead=False) as service:
            log.read_gate = trio.Event()
            await service.lead(2)
            service.coordinator.on_topics_deleted([("t", b"t".ljust(16, b"."))])
            log.read_gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert (await service.coordinator.committed_offsets()) == {}
            assert len(service.coordinator.runtime.partitions()) == PARTITIONS

    run(scenario)
