"""The runtime: who is told what, and when, while the log is slow, fails, moves away or is still being read."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError, NotLeader, StorageError
from kraft.common.ids import TopicPartition
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.shard_state import OffsetAndMetadata
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.group_host import TestCaller, commit_request, join_request, sync_request
from tests.unit.coordinator.service import PARTITIONS, Service, ask, run, serving

CALLER = TestCaller(9)


def code_of(response) -> int:
    return response.topics[0].partitions[0].error_code


async def commit(service: Service, offset: int, group: str = "g"):
    return await service.coordinator.offset_commit(commit_request(group, {("t", 0): offset}), CALLER)


async def committed(service: Service, group: str = "g", require_stable: bool = False) -> int:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=require_stable)
    response = await service.coordinator.offset_fetch(request, CALLER)
    assert response.groups[0].error_code == 0
    return response.groups[0].topics[0].partitions[0].committed_offset


def test_a_commit_is_answered_when_the_high_watermark_has_passed_it_and_read_no_sooner():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            service.log.held = True
            pending = ask(nursery, commit(service, 7))
            stable = None
            await trio.testing.wait_all_tasks_blocked()
            stable = ask(nursery, committed(service, require_stable=True))
            await trio.testing.wait_all_tasks_blocked()
            assert not pending.answered
            assert not stable.answered, "a client that requires stable offsets waits for those on their way"
            assert await committed(service) == -1
            service.log.replicate(service.partition("g"))
            await trio.testing.wait_all_tasks_blocked()
            assert code_of(pending.response) == 0
            assert stable.response == 7
            assert await committed(service) == 7

    run(scenario)


def test_commits_that_come_together_share_one_batch():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            before = service.log.appends
            pending = [ask(nursery, commit(service, number)) for number in range(20)]
            await trio.testing.wait_all_tasks_blocked()
            assert all(each.answered for each in pending)
            assert service.log.appends == before + 1
            assert len(service.log.batches[service.partition("g")][-1].entries) == 20

    run(scenario)


def test_when_an_append_fails_the_state_is_as_before_and_everybody_who_built_on_it_is_told():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            assert code_of(await commit(service, 1)) == 0
            service.log.gate = trio.Event()
            service.log.fail_next = [ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)]
            first = ask(nursery, commit(service, 2))
            await trio.testing.wait_all_tasks_blocked()
            second = ask(nursery, commit(service, 3))
            await trio.testing.wait_all_tasks_blocked()
            service.log.gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert code_of(first.response) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert code_of(second.response) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await committed(service) == 1
            assert code_of(await commit(service, 4)) == 0
            assert await committed(service) == 4

    run(scenario)


def test_a_broken_disk_makes_clients_look_for_another_coordinator():
    async def scenario():
        async with serving() as service:
            service.log.fail_next = [StorageError("no")]
            assert code_of(await commit(service, 2)) == ErrorCode.NOT_COORDINATOR

    run(scenario)


def test_a_member_parked_on_top_of_a_failed_append_is_told_and_the_group_is_gone():
    async def scenario():
        config = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=3000)
        async with serving(config=config) as service, trio.open_nursery() as nursery:
            service.log.fail_next = [ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)]
            joining = ask(nursery, service.coordinator.join_group(join_request("g"), TestCaller(3)))
            with trio.move_on_after(1):
                await trio.sleep_forever()
            assert joining.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert service.coordinator.group_states() == {}

    run(scenario)


def test_an_answer_that_replication_keeps_waiting_is_an_error_after_the_commit_timeout_but_the_offset_stays():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            service.log.held = True
            started = trio.current_time()
            pending = ask(nursery, commit(service, 5))
            await trio.sleep(6)
            assert code_of(pending.response) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert trio.current_time() - started >= 5
            service.log.replicate(service.partition("g"))
            assert await committed(service) == 5

    run(scenario)


def test_a_coordinator_that_is_loading_says_so_and_heartbeats_pass():
    async def scenario():
        async with serving(lead=False) as service:
            service.log.read_gate = trio.Event()
            await service.lead()
            assert code_of(await commit(service, 1)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert (await service.coordinator.heartbeat(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), CALLER)).error_code == 0
            assert (await service.coordinator.list_groups(ListGroupsRequest(), CALLER)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            service.log.read_gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert code_of(await commit(service, 1)) == 0

    run(scenario)


def test_a_partition_that_is_not_led_here_is_not_coordinated_here():
    async def scenario():
        async with serving(lead=False) as service:
            assert code_of(await commit(service, 1)) == ErrorCode.NOT_COORDINATOR

    run(scenario)


def test_before_it_runs_the_coordinator_is_not_available():
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


def test_losing_a_partition_answers_everybody_who_waits():
    async def scenario():
        config = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=3000)
        async with serving(config=config) as service, trio.open_nursery() as nursery:
            joining = ask(nursery, service.coordinator.join_group(join_request("g"), TestCaller(3)))
            service.log.held = True
            neighbour = next(name for name in map(str, range(99)) if service.partition(name) == service.partition("g"))
            committing = ask(nursery, commit(service, 1, neighbour))
            await trio.testing.wait_all_tasks_blocked()
            service.coordinator.on_resignation(service.partition("g").partition, 2)
            await trio.testing.wait_all_tasks_blocked()
            assert joining.response.error_code == ErrorCode.NOT_COORDINATOR
            assert code_of(committing.response) == ErrorCode.NOT_COORDINATOR
            assert code_of(await commit(service, 1)) == ErrorCode.NOT_COORDINATOR

    run(scenario)


def test_only_a_newer_epoch_moves_a_partition():
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


def test_a_new_epoch_reads_the_log_only_when_the_old_one_has_stopped_appending():
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


def test_another_node_rebuilds_groups_and_offsets_from_the_log():
    async def scenario():
        log = MemoryLog()
        async with serving(log) as service, trio.open_nursery() as nursery:
            joined = await service.coordinator.join_group(join_request("g"), TestCaller(3))
            syncing = ask(nursery, service.coordinator.sync_group(sync_request("g", joined.member_id, 1, {joined.member_id: b"all"}), TestCaller(3)))
            await trio.testing.wait_all_tasks_blocked()
            assert syncing.response.assignment == b"all"
            request = commit_request("g", {("t", 0): 42}, joined.member_id, 1)
            assert code_of(await service.coordinator.offset_commit(request, CALLER)) == 0
        async with serving(log) as successor:
            await successor.lead(2)
            assert successor.coordinator.group_states() == {"g": "Stable"}
            assert await committed(successor) == 42
            beat = await successor.coordinator.heartbeat(HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id), CALLER)
            assert beat.error_code == 0

    run(scenario)


def test_a_new_leader_does_not_answer_before_all_that_it_read_is_known_to_be_committed():
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
            assert (await successor.coordinator.offset_fetch(request, CALLER)).groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            log.replicate(successor.partition("g"))
            await trio.testing.wait_all_tasks_blocked()
            assert await committed(successor) == 2

    run(scenario)


def test_a_new_leader_waits_for_a_silent_follower_sooner_than_tell_an_older_offset():
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
                assert (await successor.coordinator.offset_fetch(request, CALLER)).groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                beat = await successor.coordinator.heartbeat(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), CALLER)
                assert beat.error_code == 0, "no session runs meanwhile"
            waits = [note for note in successor.world.notes if note["event"] == "coordinator_waits_for_replication"]
            assert [(note["partition"], note["offset"]) for note in waits] == [(str(partition), 1)], "told once"
            log.replicate(partition)
            await trio.testing.wait_all_tasks_blocked()
            assert await committed(successor) == 2

    run(scenario)


def test_a_leader_that_waits_for_its_follower_can_be_relieved():
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


def test_loading_is_tried_again_until_it_succeeds():
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


def write_offsets(count: int, metadata: str):
    """An operation that commits `count` partitions with large metadata."""

    def operation(draft):
        for index in range(count):
            draft.write_offset("g", TopicPartition("t", index), OffsetAndMetadata(1, -1, metadata, 0))
        return "written"

    return operation


def test_an_operation_too_large_for_one_batch_is_split():
    async def scenario():
        async with serving() as service:
            assert await service.coordinator.runtime.write(service.partition("g").partition, write_offsets(200, "m" * 4096)) == "written"
            assert service.log.appends == 2, "800 KB need two batches"

    run(scenario)


def test_if_a_split_operation_fails_half_way_the_log_decides_what_holds():
    async def scenario():
        async with serving() as service:
            runtime, partition = service.coordinator.runtime, service.partition("g").partition
            await runtime.write(partition, write_offsets(200, "m" * 4096))
            real_append = service.log.append

            async def append(*arguments):
                if service.log.appends == 3:
                    service.log.append = real_append
                    raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
                return await real_append(*arguments)

            service.log.append = append
            with pytest.raises(ApiError) as refused:
                await runtime.write(partition, write_offsets(200, "n" * 4096))
            assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await trio.testing.wait_all_tasks_blocked()
            offsets = service.coordinator.committed_offsets()["g"].values()
            in_log = len(service.log.batches[service.partition("g")][-1].entries)
            assert sum(each.metadata[0] == "n" for each in offsets) == in_log
            assert 0 < in_log < 200

    run(scenario)


def test_a_request_that_is_given_up_leaves_the_coordinator_as_it_is():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            service.log.held = True
            pending = ask(nursery, commit(service, 9))
            await trio.testing.wait_all_tasks_blocked()
            pending.scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            service.log.replicate(service.partition("g"))
            assert await committed(service) == 9

    run(scenario)


def test_offsets_of_a_topic_made_anew_stay_when_the_old_one_is_reported_deleted():
    async def scenario():
        async with serving() as service:
            await commit(service, 3)
            service.coordinator.on_topics_deleted([("t", b"an older one...."), ("u", b"u".ljust(16, b"."))])
            await trio.testing.wait_all_tasks_blocked()
            assert await committed(service) == 3

    run(scenario)


def test_offsets_of_deleted_topics_go_also_from_shards_that_were_loading():
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
            assert service.coordinator.committed_offsets() == {}
            assert len(service.coordinator.runtime.partitions()) == PARTITIONS

    run(scenario)


def test_leadership_lost_while_an_append_runs_leaves_the_answer_to_the_resignation():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            service.log.held = True

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


def test_a_partition_that_is_lost_before_it_is_loaded_harms_nobody():
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
            assert [service.coordinator.runtime.is_active(partition) for partition in range(PARTITIONS)] == [True, False, True, True]

    run(scenario)


def test_a_deadline_that_a_failed_append_put_back_passes_again():
    """A member's session ends, the record of the empty group is refused, the member is back, and its session ends once more."""

    async def scenario():
        async with serving() as service:
            joined = await service.coordinator.join_group(join_request("g"), TestCaller(3))
            request = sync_request("g", joined.member_id, 1, {joined.member_id: b"all"})
            assert (await service.coordinator.sync_group(request, TestCaller(4))).error_code == 0
            service.log.fail_next = [ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)]
            await trio.sleep(10.1)
            assert service.coordinator.group_states() == {"g": "Stable"}
            await trio.sleep(0.5)
            assert service.coordinator.group_states() == {"g": "Empty"}

    run(scenario)


def test_a_successor_waits_for_an_append_that_cannot_be_cancelled():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            await commit(service, 1)
            real_append = service.log.append
            writing = trio.Event()

            async def append(*arguments):
                with trio.CancelScope(shield=True):
                    await writing.wait()
                    return await real_append(*arguments)

            service.log.append = append
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
