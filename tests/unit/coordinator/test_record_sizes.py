"""A record that the log would not take is refused by itself, and harms nobody whose records would have shared its
batch."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError, NotLeader
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.group_host import TestCaller, commit_request, join_request, sync_request
from tests.unit.coordinator.service import ask, code_of, commit, committed, neighbour, run, serving, write_offsets


@pytest.mark.parametrize("size", [1_048_588, 3_000_000])
def test_an_assignment_too_large_for_the_log_fails_without_affecting_others(size):
    async def scenario():
        async with serving() as service, trio.open_nursery() as nursery:
            other = neighbour(service, "g")
            joined = await service.coordinator.join_group(join_request("g"), TestCaller(3))
            service.log.gate = trio.Event()
            first = ask(nursery, commit(service, 1, other))
            await trio.testing.wait_all_tasks_blocked()
            commits = [ask(nursery, commit(service, 2, other))]
            large = ask(
                nursery,
                service.coordinator.sync_group(
                    sync_request("g", joined.member_id, 1, {joined.member_id: bytes(size)}), TestCaller(4)
                ),
            )
            await trio.testing.wait_all_tasks_blocked()
            commits.append(ask(nursery, commit(service, 3, other)))
            await trio.testing.wait_all_tasks_blocked()
            assert large.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR, "at once, and nothing of it is kept"
            service.log.gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert [code_of(each.response) for each in (first, *commits)] == [0, 0, 0]
            assert await committed(service, other) == 3
            rejoined = await service.coordinator.join_group(join_request("g", joined.member_id), TestCaller(3))
            again = sync_request("g", joined.member_id, rejoined.generation_id, {joined.member_id: b"small"})
            assert (await service.coordinator.sync_group(again, TestCaller(4))).assignment == b"small"

    run(scenario)


def test_operations_share_batches_within_the_logs_size_limit():
    async def scenario():
        async with serving() as service:
            service.log.batch_bytes_max = 10_000
            partition = service.partition("g").partition
            service.log.gate = trio.Event()
            async with trio.open_nursery() as nursery:
                for index in range(11):
                    operation = write_offsets(1, "m" * 4000, str(index))
                    nursery.start_soon(service.coordinator.runtime.write, partition, operation)
                    await trio.testing.wait_all_tasks_blocked()
                service.log.gate.set()
            assert [batch.count for batch in service.log.batches[service.partition("g")]] == [1, 2, 2, 2, 2, 2]
            with pytest.raises(ApiError) as refused:
                await service.coordinator.runtime.write(partition, write_offsets(1, "m" * 10_000))
            assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert len((await service.coordinator.committed_offsets())["g"]) == 11

    run(scenario)


def test_a_commit_to_a_partition_just_lost_gets_not_coordinator():
    async def scenario():
        async with serving() as service:

            def not_led(partition):
                raise NotLeader("moved")

            service.log.batch_bounds = not_led
            response = await service.coordinator.offset_commit(commit_request("g", {("t", 0): 1}), TestCaller(9))
            assert code_of(response) == ErrorCode.NOT_COORDINATOR
            assert service.log.appends == 0

    run(scenario)
