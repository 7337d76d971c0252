"""One item that fails in a way nobody foresaw (a deadline, a turn of a walk, a shard, a transaction) ends alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.coordinator.group.group_shard import GroupShard
from kraft.coordinator.transaction import transaction_coordinator
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.group_host import join_request
from tests.unit.coordinator.service import CALLER, PARTITIONS, code_of, commit, run, serving
from tests.unit.coordinator.transaction.coordinating import PLACE, Markers, coordinating


def items(runtime):
    return [(each.work, each.item) for each in runtime.set_aside.items()]


def test_a_timer_that_raises_is_suspended_and_the_shard_keeps_serving(monkeypatch):
    async def scenario():
        async with serving() as service:
            real, expired = GroupShard.expire, []

            def expire(shard, draft, key):
                assert key[1] != "bad", "broken"
                real(shard, draft, key)
                expired.append(key[1])

            monkeypatch.setattr(GroupShard, "expire", expire)
            runtime, partition = service.coordinator.runtime, service.partition("bad").partition
            other = next(f"g{index}" for index in range(99) if service.partition(f"g{index}").partition == partition)
            async with trio.open_nursery() as nursery:
                for group in ("bad", other):
                    request = join_request(group)
                    nursery.start_soon(service.coordinator.join_group, request, CALLER)
            await trio.sleep(30)
            assert [work for work, _ in items(runtime)] == ["coordinator deadline"]
            assert "bad" in items(runtime)[0][1]
            assert set(expired) == {other}
            assert code_of(await commit(service, 1)) == 0

    run(scenario)


def test_a_sweep_step_that_raises_is_suspended_and_the_next_step_runs():
    async def scenario():
        async with serving() as service:
            walked = []

            def broken(draft):
                raise ValueError("broken")

            def walk(state):
                yield broken
                yield walked.append

            service.coordinator.runtime.walk_all(walk)
            await trio.testing.wait_all_tasks_blocked()
            assert len(walked) == PARTITIONS
            assert service.coordinator.runtime.set_aside.failures == {"coordinator walk": PARTITIONS}

    run(scenario)


def test_a_failed_shard_does_not_affect_other_shards(monkeypatch):
    async def scenario():
        async with serving(lead=False) as service:
            bad = service.partition("g")
            real = GroupShard.loaded
            broken = iter([True])

            def loaded(shard, draft):
                if next(broken, False):
                    raise ValueError("broken")
                real(shard, draft)

            monkeypatch.setattr(GroupShard, "loaded", loaded)
            runtime = service.coordinator.runtime
            runtime.on_election(bad.partition, 1)
            await trio.testing.wait_all_tasks_blocked()
            assert items(runtime) == [("coordinator shard", str(bad))]
            with pytest.raises(ApiError) as refused:
                runtime.read(bad.partition, lambda state: state)
            assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            other = (bad.partition + 1) % PARTITIONS
            runtime.on_election(other, 1)
            await trio.testing.wait_all_tasks_blocked()
            assert runtime.is_active(other)
            runtime.on_election(bad.partition, 2)
            await trio.testing.wait_all_tasks_blocked()
            assert runtime.is_active(bad.partition), "a later epoch tries anew"

    run(scenario)


def test_a_failed_shard_is_reloaded_with_bounded_exponential_backoff(monkeypatch):
    async def scenario():
        async with serving(lead=False) as service:
            bad, real, tried = service.partition("g"), GroupShard.loaded, []

            def loaded(shard, draft):
                tried.append(trio.current_time())
                if len(tried) <= 9:
                    raise ValueError("broken")
                real(shard, draft)

            monkeypatch.setattr(GroupShard, "loaded", loaded)
            runtime = service.coordinator.runtime
            runtime.on_election(bad.partition, 1)
            await trio.sleep(240)
            pauses = [round(later - earlier) for earlier, later in pairwise(tried)]
            assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60][: len(pauses)]
            assert len(pauses) == 8
            assert items(runtime) == [("coordinator shard", str(bad))]
            await trio.sleep(60)
            assert items(runtime) == []
            assert code_of(await commit(service, 1)) == 0

    run(scenario)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_shard_that_fails_while_serving_fails_its_waiting_requests_and_is_reloaded(at_once):
    async def scenario():
        async with serving() as service:
            real, real_at_once = service.log.append, service.log.append_at_once

            async def broken_once(*arguments):
                service.log.append = real
                raise ValueError("broken")

            def broken_once_at_once(*arguments):
                service.log.append_at_once = real_at_once
                raise ValueError("broken")

            service.log.takes_at_once = at_once
            if at_once:
                service.log.append_at_once = broken_once_at_once
            else:
                service.log.append = broken_once
            assert code_of(await commit(service, 1)) == ErrorCode.NOT_COORDINATOR
            assert code_of(await commit(service, 2)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await trio.sleep(1.1)
            assert code_of(await commit(service, 3)) == 0
            assert items(service.coordinator.runtime) == []

    run(scenario)


def test_a_transaction_whose_timeout_raises_is_suspended_and_other_transactions_are_aborted(monkeypatch):
    async def scenario():
        log, markers = MemoryLog(), Markers()
        async with coordinating(log, markers, 1) as coordinator:
            for name in ("bad", "good"):
                producer = await coordinator.init_producer_id(name, 1_000, None)
                await coordinator.add_partitions(name, *producer, [PLACE], 2)
            real = transaction_coordinator.abort_timed_out

            def abort(draft, transactional_id, fresh):
                assert transactional_id != "bad", "broken"
                return real(draft, transactional_id, fresh)

            with monkeypatch.context() as patched:
                patched.setattr(transaction_coordinator, "abort_timed_out", abort)
                await trio.sleep(25)
                assert items(coordinator.runtime) == [("transaction time-out", "bad")]
                assert coordinator.describe("good").transaction_state == "PrepareAbort"
            await trio.sleep(10)
            assert items(coordinator.runtime) == []
            assert coordinator.describe("bad").transaction_state == "PrepareAbort"

    run(scenario)


def test_a_transaction_whose_markers_raise_is_suspended_and_other_transactions_complete():
    class Broken(Markers):
        async def write(self, ending, coordinator_epoch, is_current):
            assert ending.transactional_id != "bad", "broken"
            return True

    async def scenario():
        async with coordinating(MemoryLog(), Broken(), 1) as coordinator:
            for name in ("bad", "good"):
                producer = await coordinator.init_producer_id(name, 60_000, None)
                await coordinator.add_partitions(name, *producer, [PLACE], 2)
                await coordinator.end_transaction(
                    transaction_coordinator.End(name, *producer, committed=True, version=2)
                )
            await trio.testing.wait_all_tasks_blocked()
            assert items(coordinator.runtime) == [("end of a transaction", "bad")]
            assert coordinator.describe("good").transaction_state == "CompleteCommit"

    run(scenario)
