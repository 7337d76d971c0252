"""Jobs of consumer groups, done beside the heartbeats of a running coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.coordinator.group.consumer import assigning
from kraft.coordinator.group.consumer.consumer_group import ConsumerGroup
from kraft.coordinator.group.consumer.expressions import MayDescribe, ResolveExpressions
from kraft.coordinator.group.streams import assigning as streams_assigning
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kraft.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from tests.unit.coordinator.group.streams.applications import reads, topology
from tests.unit.coordinator.group_host import TestCaller
from tests.unit.coordinator.service import Service, run, serving

GROUP = "g"


def everything(topic: str) -> bool:
    return True


async def join(
    service: Service, pattern: str = "t.*", may_describe: MayDescribe = everything, group: str = GROUP
) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )
    return await service.coordinator.consumer.heartbeat(request, TestCaller(1), may_describe)


def group_of(service: Service, group: str = GROUP) -> ConsumerGroup:
    found = service.coordinator.runtime.read(
        service.coordinator.partition_for(group), lambda state: state.consumer_group(group)
    )
    assert found is not None
    return found


def events(service: Service) -> list[str]:
    return [note["event"] for note in service.world.notes]


def test_a_pattern_is_matched_after_the_heartbeat_response() -> None:
    async def test() -> None:
        async with serving() as service:
            service.topics.names = ["t", *(f"t{number}" for number in range(2_500)), "u"]
            assert (await join(service)).member_epoch == 1
            await trio.testing.wait_all_tasks_blocked()
            group = group_of(service)
            assert (group.group_epoch, len(group.regexes["t.*"].topics)) == (2, 2_501)

    run(test)


def test_a_group_runs_one_background_job_at_a_time() -> None:
    async def test() -> None:
        async with serving() as service:
            asked: list[str] = []
            await join(service, may_describe=lambda topic: asked.append(topic) is None)
            await join(service, may_describe=lambda topic: asked.append(topic) is None)
            await trio.testing.wait_all_tasks_blocked()
            assert asked == ["t"]

    run(test)


def test_a_refused_background_job_is_requested_again() -> None:
    async def test() -> None:
        def refuse(topic: str) -> bool:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "not loaded")

        async with serving() as service:
            await join(service, may_describe=refuse)
            await trio.testing.wait_all_tasks_blocked()
            assert not group_of(service).regexes
            assert "consumer_group_job_refused" in events(service)
            await join(service)
            await trio.testing.wait_all_tasks_blocked()
            assert list(group_of(service).regexes) == ["t.*"]

    run(test)


def test_a_background_job_that_raises_is_suspended_and_other_jobs_run() -> None:
    async def test() -> None:
        async with serving() as service:
            await join(service, may_describe=lambda topic: bool(1 // 0))
            await join(service, group="other")
            await trio.testing.wait_all_tasks_blocked()
            assert service.coordinator.runtime.set_aside.failures == {"consumer group job": 1}
            assert list(group_of(service, "other").regexes) == ["t.*"]

    run(test)


def test_a_pattern_that_cannot_be_parsed_matches_nothing() -> None:
    """It is of a log that another release wrote."""

    async def test() -> None:
        async with serving() as service:
            await join(service)
            await trio.testing.wait_all_tasks_blocked()
            partition = service.coordinator.partition_for(GROUP)

            def ask(draft: Any) -> None:
                draft.effects.append(ResolveExpressions(GROUP, ("t.*", "("), everything))

            await service.coordinator.runtime.write(partition, ask)
            await trio.testing.wait_all_tasks_blocked()
            assert "consumer_group_expression_unreadable" in events(service)
            assert group_of(service).regexes["t.*"].topics == {"t"}

    run(test)


def test_the_result_of_a_job_for_an_unloaded_coordinator_is_dropped() -> None:
    async def test() -> None:
        async with serving() as service:
            partition = service.coordinator.partition_for(GROUP)

            def resign(topic: str) -> bool:
                service.coordinator.on_resignation(partition)
                return True

            await join(service, may_describe=resign)
            await trio.testing.wait_all_tasks_blocked()
            assert "consumer_group_job_refused" in events(service)
            await service.lead(2)
            assert not group_of(service).regexes

    run(test)


# Targets of large groups.


async def join_large(service: Service, member_id: str = "m", group: str = GROUP) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    answer = await service.coordinator.consumer.heartbeat(request, TestCaller(1), everything)
    assert answer.error_code == ErrorCode.NONE


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigning, "INLINE_COST_MAX", 0)


@pytest.mark.usefixtures("all_are_large")
def test_a_target_is_computed_after_the_heartbeat_response() -> None:
    async def test() -> None:
        async with serving() as service:
            await join_large(service)
            await trio.testing.wait_all_tasks_blocked()
            group = group_of(service)
            assert (group.group_epoch, group.assignment_epoch, list(group.targets)) == (2, 2, ["m"])

    run(test)


class GatedThreads:
    """`world.ports.Threads` that begin when they are let go."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.gate = trio.Event()
        self.fails = False

    async def run(self, function: Any, *args: Any) -> Any:
        self.begun.append(args[0])
        await self.gate.wait()
        if self.fails:
            self.fails = False
            raise ZeroDivisionError
        return function(*args)


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("fails", [False, True])
def test_members_that_join_during_a_computation_are_in_the_next_target(fails: bool) -> None:
    """One job at a time computes for the group, the next for the newest epoch, also after one that failed."""

    async def test() -> None:
        async with serving() as service:
            threads = GatedThreads()
            service.world.threads = threads  # type: ignore[assignment]
            service.consumer_configs.settings = replace(service.consumer_configs.settings, assignment_interval_ms=0)
            for member_id in "abcd":
                await join_large(service, member_id)
                await trio.testing.wait_all_tasks_blocked()
            assert [due.group.group_epoch for due in threads.begun] == [2]
            threads.fails = fails
            threads.gate.set()
            await trio.testing.wait_all_tasks_blocked()
            assert [due.group.group_epoch for due in threads.begun] == [2, 5]
            group = group_of(service)
            assert (group.assignment_epoch, len(group.targets)) == (5, 2), "two partitions for four members"
            assert service.coordinator.runtime.set_aside.failures == ({"consumer group job": 1} if fails else {})

    run(test)


@pytest.mark.usefixtures("all_are_large")
def test_jobs_of_different_kinds_do_not_wait_for_each_other() -> None:
    async def test() -> None:
        async with serving() as service:
            threads = GatedThreads()
            service.world.threads = threads  # type: ignore[assignment]
            service.consumer_configs.settings = replace(service.consumer_configs.settings, assignment_interval_ms=0)
            await join(service)
            await join_large(service, "n")
            await trio.testing.wait_all_tasks_blocked()
            assert len(threads.begun) == 2, "the pattern and the target"

    run(test)


def test_a_target_of_tasks_is_computed_after_the_heartbeat_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_assigning, "INLINE_TASKS_MAX", 0)

    async def test() -> None:
        async with serving() as service:
            request = StreamsGroupHeartbeatRequest(
                group_id=GROUP,
                member_id="m",
                rebalance_timeout_ms=60_000,
                process_id="p",
                topology=topology(reads("t")),
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
            )
            await service.coordinator.streams.heartbeat(request, TestCaller(1))
            await trio.testing.wait_all_tasks_blocked()
            partition = service.coordinator.partition_for(GROUP)
            group = service.coordinator.runtime.read(partition, lambda state: state.streams_groups[GROUP])
            assert (group.group_epoch, group.assignment_epoch, list(group.targets)) == (2, 2, ["m"])

    run(test)
