"""The driver of a shard: who is told what, and when, while the log is slow, fails, or does not replicate."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError, StorageError
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.shard_driver import AT_ONCE_A_MS
from kraft.protocol.error_codes import ErrorCode
from tests.properties.whole_operations import write_behind_a_gate
from tests.unit.coordinator.group_host import TestCaller, join_request, sync_request
from tests.unit.coordinator.service import ask, code_of, commit, committed, run, serving, write_offsets


def test_a_commit_is_answered_and_readable_only_when_the_high_watermark_passed_it():
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


def test_concurrent_commits_share_a_batch_behind_the_first_few():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            pending = [ask(nursery, commit(service, number)) for number in range(20)]
            await trio.testing.wait_all_tasks_blocked()
            assert all(each.answered for each in pending)
            sizes = [len(batch.entries) for batch in service.log.batches[service.partition("g")]]
            assert sizes == [1] * AT_ONCE_A_MS + [20 - AT_ONCE_A_MS]

    run(scenario)


def test_a_failed_append_rolls_back_the_state_and_fails_all_requests_built_on_it():
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


def test_a_broken_disk_sends_clients_to_another_coordinator():
    async def scenario():
        async with serving() as service:
            service.log.fail_next = [StorageError("no")]
            assert code_of(await commit(service, 2)) == ErrorCode.NOT_COORDINATOR

    run(scenario)


def test_a_member_parked_on_a_failed_append_gets_an_error_and_its_group_is_removed():
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


def test_a_commit_delayed_by_replication_times_out_but_its_offset_stays():
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


def test_a_timer_restored_by_a_failed_append_expires_again():
    """A member's session ends, the record of the empty group is refused, the member is back, and its session ends
    once more."""

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


@pytest.mark.parametrize("count", [200, 600])
def test_an_operation_is_written_as_one_batch_whatever_its_size(count):
    """800 KB, and 2.4 MB: more than max.message.bytes."""

    async def scenario():
        async with serving() as service:
            partition = service.partition("g")
            written = await service.coordinator.runtime.write(partition.partition, write_offsets(count, "m" * 4096))
            assert written == "written"
            assert [batch.count for batch in service.log.batches[partition]] == [count]

    run(scenario)


def test_an_operation_too_large_for_a_segment_is_refused_completely():
    async def scenario():
        async with serving() as service:
            service.log.append_bytes_max = 1_000_000
            runtime, partition = service.coordinator.runtime, service.partition("g")
            with pytest.raises(ApiError) as refused:
                await runtime.write(partition.partition, write_offsets(300, "m" * 4096))
            assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert partition not in service.log.batches
            assert not (await service.coordinator.committed_offsets())

    run(scenario)


def test_after_a_failure_of_the_second_of_two_batches_the_state_follows_the_log():
    async def scenario():
        async with serving() as service:
            partition, real_append = service.partition("g"), service.log.append

            async def append(*arguments):
                if service.log.appends == 2:
                    service.log.append = real_append
                    raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
                return await real_append(*arguments)

            service.log.append = append
            outcomes = await write_behind_a_gate(service, partition, [1, 100, 101])
            assert outcomes == {1: "written", 100: ErrorCode.NOT_COORDINATOR, 101: ErrorCode.NOT_COORDINATOR}, (
                "a part is in the log: COORDINATOR_LOAD_IN_PROGRESS would say that nothing is"
            )
            await trio.testing.wait_all_tasks_blocked()
            assert [batch.count for batch in service.log.batches[partition]] == [1, 100]
            topics = [place.topic for place in (await service.coordinator.committed_offsets())["g"]]
            assert {topic: topics.count(topic) for topic in topics} == {"of-1-t": 1, "of-100-t": 100}

    run(scenario)


def test_a_cancelled_request_does_not_change_the_coordinator():
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


def test_offsets_of_a_recreated_topic_survive_the_deletion_of_the_old_topic():
    async def scenario():
        async with serving() as service:
            await commit(service, 3)
            service.coordinator.on_topics_deleted([("t", b"an older one...."), ("u", b"u".ljust(16, b"."))])
            await trio.testing.wait_all_tasks_blocked()
            assert await committed(service) == 3

    run(scenario)


def test_a_synchronous_append_is_answered_in_the_step_that_submits_it():
    async def scenario():
        async with serving() as service:
            await trio.sleep(1)
            waiter = service.coordinator.runtime.submit(service.partition("g").partition, write_offsets(1, "m"))
            assert waiter.answered
            assert await waiter.wait() == "written"
            assert service.log.appends == 1

    run(scenario)


def test_a_synchronous_append_failure_rolls_back_the_state():
    async def scenario():
        async with serving() as service:
            await trio.sleep(1)
            service.log.fail_next = [ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)]
            waiter = service.coordinator.runtime.submit(service.partition("g").partition, write_offsets(1, "m"))
            assert waiter.answered
            with pytest.raises(ApiError) as refused:
                await waiter.wait()
            assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert service.coordinator.group_states() == {}

    run(scenario)


def test_a_synchronous_append_that_is_not_replicated_times_out():
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            await trio.sleep(1)
            service.log.held = True
            first = ask(nursery, commit(service, 5))
            await trio.sleep(1)
            second = ask(nursery, commit(service, 6))
            await trio.sleep(4.5)
            assert first.answered
            assert not second.answered
            await trio.sleep(1)
            assert code_of(second.response) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(scenario)


def test_a_disk_failure_in_a_synchronous_append_unloads_the_coordinator():
    """The broker gives the partition up before the append has told that it failed."""

    async def scenario():
        async with serving() as service:
            await trio.sleep(1)
            partition = service.partition("g").partition

            def broken(*arguments):
                service.coordinator.on_resignation(partition, 2)
                raise StorageError("no")

            service.log.append_at_once = broken
            assert code_of(await commit(service, 2)) == ErrorCode.NOT_COORDINATOR
            assert code_of(await commit(service, 3)) == ErrorCode.NOT_COORDINATOR

    run(scenario)
