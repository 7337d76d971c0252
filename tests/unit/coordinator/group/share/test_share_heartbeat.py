"""What share group members are told, what is written for them, and what a successor makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.share.heartbeat import (
    INITIALIZE_RETRY_MS,
    WAITING_INTERVAL_MS,
    InitializeStates,
    check_request,
    share_heartbeat,
    states_initialized,
)
from kraft.coordinator.group.share.settings import ShareMembershipSettings
from kraft.coordinator.group.share.share_group import ShareGroup
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.unit.coordinator.group_host import GroupHost, TestCaller, rebuild

SESSION_MS = 45_000


class Members:
    """Share consumers of the group "g", and the share coordinator, which a test lets answer."""

    def __init__(self, config: GroupCoordinatorConfig | None = None) -> None:
        self.host = GroupHost(config)

    def beat(self, member: str, epoch: int, *topics: str) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, subscribed_topic_names=list(topics) or None
        )
        check_request(request)
        return self.host.run(lambda draft: share_heartbeat(draft, request, TestCaller(1)))[1]

    def initialize(self) -> InitializeStates | None:
        """What the share coordinator is asked for, done."""
        wanted = self.host.jobs.pop("g", None)
        if wanted is not None:
            self.host.run(lambda draft: states_initialized(draft, "g", wanted.topics))
        return wanted

    @property
    def group(self) -> ShareGroup:
        return self.host.state.share_groups["g"]

    def assigned(self, member: str) -> dict[str, set[int]]:
        topics = self.host.topics
        found = self.group.members[member].assigned
        return {topics.topic_name(topic_id) or "?": set(parts) for topic_id, parts in found.items()}


def durable(group: ShareGroup) -> tuple[object, ...]:
    return (
        group.group_epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.members,
        group.targets,
        group.initialized,
        group.deleting,
    )


def test_partitions_are_assigned_once_their_share_state_is_initialized() -> None:
    it = Members()
    joined = it.beat("a", 0, "t")
    assert (joined.error_code, joined.member_epoch, list(joined.assignment.topic_partitions)) == (0, 2, [])
    wanted = it.initialize()
    assert wanted is not None
    assert wanted.state_epoch == 2
    assert [(each.name, set(each.partitions)) for _, each in wanted.topics] == [("t", {0, 1})]
    assert it.beat("a", 2).member_epoch == 3
    assert it.assigned("a") == {"t": {0, 1}}
    assert it.host.jobs == {}, "nothing is asked for twice"


def test_members_share_partitions_when_there_are_more_members_than_partitions() -> None:
    it = Members()
    for name in ("a", "b", "c"):
        it.beat(name, 0, "t")
    it.initialize()
    for name in ("a", "b", "c", "a", "b", "c"):
        it.beat(name, it.group.members[name].member_epoch)
    assert sorted(len(it.assigned(name)["t"]) for name in ("a", "b", "c")) == [1, 1, 1]
    assert {part for name in ("a", "b", "c") for part in it.assigned(name)["t"]} == {0, 1}


def test_new_partitions_of_a_topic_get_their_share_state_initialized() -> None:
    it = Members()
    it.beat("a", 0, "t")
    it.initialize()
    it.beat("a", 2)
    it.host.topics.counts["t"] = 4
    it.beat("a", it.group.members["a"].member_epoch)
    wanted = it.initialize()
    assert wanted is not None
    assert set(wanted.topics[0][1].partitions) == {2, 3}
    it.beat("a", it.group.members["a"].member_epoch)
    assert it.assigned("a") == {"t": {0, 1, 2, 3}}


def test_share_state_that_was_not_initialized_is_requested_again_after_a_backoff() -> None:
    it = Members()
    it.beat("a", 0, "t")
    it.host.jobs.clear()
    it.beat("a", 2)
    assert it.host.jobs == {}
    it.host.advance(INITIALIZE_RETRY_MS // 2)
    it.beat("a", 2)
    it.host.advance(INITIALIZE_RETRY_MS // 2)
    it.beat("a", 2)
    assert isinstance(it.host.jobs["g"], InitializeStates)


def test_a_member_silent_for_a_session_timeout_is_removed_and_its_partitions_are_reassigned() -> None:
    it = Members()
    it.beat("a", 0, "t")
    it.beat("b", 0, "t")
    it.initialize()
    it.host.advance(SESSION_MS - 1)
    it.beat("b", it.group.members["b"].member_epoch)
    it.host.advance(2)
    assert set(it.group.members) == {"b"}
    it.beat("b", it.group.members["b"].member_epoch)
    assert it.assigned("b") == {"t": {0, 1}}


def test_members_get_the_session_timeout_and_heartbeat_interval_of_their_group() -> None:
    it = Members()
    it.host.share_configs.settings = ShareMembershipSettings(
        session_timeout_ms=50_000, heartbeat_interval_ms=7_000, assignment_interval_ms=0
    )
    it.beat("a", 0, "t")
    it.initialize()
    assert it.beat("a", 2).heartbeat_interval_ms == 7_000
    it.host.advance(SESSION_MS + 1)
    assert set(it.group.members) == {"a"}
    it.host.advance(5_000)
    assert set(it.group.members) == set()


def test_an_assignment_waits_for_the_interval_since_the_last_one() -> None:
    it = Members()
    it.host.share_configs.settings = ShareMembershipSettings(assignment_interval_ms=1_000)
    it.beat("a", 0, "t")
    it.initialize()
    waiting = it.beat("a", 2)
    assert (waiting.member_epoch, waiting.heartbeat_interval_ms) == (2, WAITING_INTERVAL_MS)
    assert (it.group.group_epoch, it.assigned("a")) == (3, {})
    it.host.advance(999)
    assert it.beat("a", 2).member_epoch == 2
    it.host.advance(1)
    assert it.beat("a", 2).member_epoch == 3
    assert it.assigned("a") == {"t": {0, 1}}


def test_a_leaving_member_is_removed_and_the_empty_group_is_kept() -> None:
    it = Members()
    it.beat("a", 0, "t")
    left = it.beat("a", -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert (it.group.state, it.group.group_epoch) == ("Empty", 3)
    with pytest.raises(ApiError) as refused:
        it.beat("a", -1)
    assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(3, ErrorCode.FENCED_MEMBER_EPOCH), (7, ErrorCode.FENCED_MEMBER_EPOCH), (4, None), (5, None)],
)
def test_a_member_may_send_its_current_or_its_previous_epoch(epoch: int, code: int | None) -> None:
    it = Members()
    it.beat("a", 0, "t")
    it.initialize()
    for name in ("b", "c"):
        it.beat(name, 0, "t")
        it.beat("a", it.group.members["a"].member_epoch)
    member = it.group.members["a"]
    shift = member.member_epoch - 5
    assert member.previous_epoch == member.member_epoch - 1
    if code is None:
        assert it.beat("a", epoch + shift).member_epoch == member.member_epoch
        return
    with pytest.raises(ApiError) as refused:
        it.beat("a", epoch + shift)
    assert refused.value.code == code


def test_a_member_that_joins_again_gets_its_assignment() -> None:
    it = Members()
    it.beat("a", 0, "t")
    it.initialize()
    it.beat("a", 2)
    again = it.beat("a", 0, "t")
    assert [list(each.partitions) for each in again.assignment.topic_partitions] == [[0, 1]]


def test_a_share_group_refuses_members_beyond_its_maximum() -> None:
    it = Members(GroupCoordinatorConfig(group_share_max_size=2))
    it.beat("a", 0, "t")
    it.beat("b", 0, "t")
    with pytest.raises(ApiError) as refused:
        it.beat("c", 0, "t")
    assert refused.value.code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert it.beat("b", it.group.members["b"].member_epoch).error_code == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"member_id": "a", "rack_id": " "},
        {"member_id": "a", "group_id": ""},
        {"member_id": "a", "member_epoch": -2, "subscribed_topic_names": ["t"]},
        {"member_id": "a", "member_epoch": 0, "subscribed_topic_names": []},
        {"member_id": "a", "member_epoch": 0},
    ],
)
def test_a_malformed_heartbeat_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        check_request(ShareGroupHeartbeatRequest(**{"group_id": "g", "member_epoch": 1, **fields}))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_new_coordinator_loads_members_targets_and_share_states() -> None:
    it = Members()
    for name in ("a", "b"):
        it.beat(name, 0, "t", "u")
    it.initialize()
    for name in ("a", "b", "a", "b"):
        it.beat(name, it.group.members[name].member_epoch)
    it.beat("b", -1)
    before = durable(it.group)
    assert durable(rebuild(it.host.shard, it.host.log).share_groups["g"]) == before
    it.host.load()
    assert durable(it.group) == before
    it.host.advance(SESSION_MS + 1)
    assert it.group.state == "Empty", "sessions begin again with the successor"


def test_the_epoch_of_a_new_group_is_one_before_its_first_member() -> None:
    it = Members()
    assert it.beat("a", 0, "t").member_epoch == 2
    assert (it.group.group_epoch, it.group.assignment_epoch) == (2, 2)


def test_a_group_without_members_has_its_last_epoch_assigned_and_waits_for_no_interval() -> None:
    it = Members()
    it.host.share_configs.settings = ShareMembershipSettings(assignment_interval_ms=1_000)
    it.beat("a", 0, "t")
    it.initialize()
    it.beat("a", -1)
    assert (it.group.group_epoch, it.group.assignment_epoch) == (3, 3)
    it.beat("b", 0, "t")
    assert it.assigned("b") == {"t": {0, 1}}


def test_a_member_that_leaves_others_behind_leaves_the_assignment_to_them() -> None:
    it = Members()
    it.beat("a", 0, "t")
    it.beat("b", 0, "t")
    it.beat("a", -1)
    assert (it.group.group_epoch, it.group.assignment_epoch) == (4, 3)
