"""A leader's assignment that the log refuses: all who wait for it are told the same, and the group rebalances."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft.common.errors import ApiError
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.group_host import TestCaller, join_request, sync_request
from tests.unit.coordinator.service import Service, ask, run, serving

JOINER, SYNCER = TestCaller(3), TestCaller(4)
CONFIG = GroupCoordinatorConfig(group_initial_rebalance_delay_ms=100)
REFUSALS = [
    ([ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)], 10, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ([], 3_000_000, ErrorCode.UNKNOWN_SERVER_ERROR),
]


async def joined(service: Service, member_ids: tuple[str, ...]) -> tuple[str, str, int]:
    """The leader, the other, and the generation of two members that join at once."""
    async with trio.open_nursery() as nursery:
        joins = [
            ask(nursery, service.coordinator.join_group(join_request("g", member_id), JOINER))
            for member_id in member_ids
        ]
    answers = [each.response for each in joins]
    assert [answer.error_code for answer in answers] == [0, 0]
    leader = answers[0].leader
    follower = next(answer.member_id for answer in answers if answer.member_id != leader)
    return leader, follower, answers[0].generation_id


@pytest.mark.parametrize(("failures", "size", "told"), REFUSALS)
def test_all_members_that_wait_for_a_failed_assignment_get_an_error_and_rejoin(failures, size, told):
    async def scenario():
        async with serving(config=CONFIG) as service, trio.open_nursery() as nursery:
            leader, follower, generation = await joined(service, ("", ""))
            waiting = ask(nursery, service.coordinator.sync_group(sync_request("g", follower, generation), SYNCER))
            await trio.testing.wait_all_tasks_blocked()
            service.log.fail_next = list(failures)
            refused = await service.coordinator.sync_group(
                sync_request("g", leader, generation, {leader: bytes(size)}), SYNCER
            )
            await trio.testing.wait_all_tasks_blocked()
            assert refused.error_code == told
            assert waiting.answered
            assert waiting.response.error_code == told
            assert service.coordinator.group_states() == {"g": "PreparingRebalance"}
            leader, follower, generation = await joined(service, (leader, follower))
            assert generation == 2
            waiting = ask(nursery, service.coordinator.sync_group(sync_request("g", follower, generation), SYNCER))
            settled = await service.coordinator.sync_group(
                sync_request("g", leader, generation, {leader: b"l", follower: b"f"}), SYNCER
            )
            await trio.testing.wait_all_tasks_blocked()
            assert (settled.assignment, waiting.response.assignment) == (b"l", b"f")

    run(scenario)


def test_a_late_append_failure_does_not_change_a_stable_generation():
    """Replication takes too long: the leader is told, but the assignment is in the log."""

    async def scenario():
        async with serving(config=CONFIG) as service:
            leader, _, generation = await joined(service, ("", ""))
            service.log.held = True
            late = await service.coordinator.sync_group(sync_request("g", leader, generation, {leader: b"l"}), SYNCER)
            assert late.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            service.log.replicate(service.partition("g"))
            assert service.coordinator.group_states() == {"g": "Stable"}

    run(scenario)
