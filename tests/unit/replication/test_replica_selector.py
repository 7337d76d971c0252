"""Which replica a consumer is sent to."""

from __future__ import annotations

from kraft.replication.isr_policy import FollowerState
from kraft.replication.replica_selector import LEADER, preferred_replica

RACKS = {1: "a", 2: "b", 3: "b", 4: "c"}


def follower(end: int, caught_up_at: float = 0.0, start: int = 0) -> FollowerState:
    state = FollowerState(0.0)
    state.log_end_offset, state.log_start_offset, state.caught_up_at = end, start, caught_up_at
    return state


def test_a_fetch_without_a_rack_or_without_a_replica_in_the_rack_is_not_redirected() -> None:
    followers = {2: follower(10), 3: follower(10)}
    assert preferred_replica("", 1, RACKS, followers, 0) == LEADER
    assert preferred_replica("elsewhere", 1, RACKS, followers, 0) == LEADER
    assert preferred_replica("c", 1, RACKS, followers, 0) == LEADER


def test_the_leader_is_preferred_in_its_own_rack() -> None:
    assert preferred_replica("b", 2, RACKS, {3: follower(10), 1: follower(10)}, 0) == LEADER


def test_replicas_are_preferred_by_log_end_then_last_caught_up_time_then_id() -> None:
    assert preferred_replica("b", 1, RACKS, {2: follower(11), 3: follower(10)}, 0) == 2
    assert preferred_replica("b", 1, RACKS, {2: follower(10, 5.0), 3: follower(10, 4.0)}, 0) == 2
    assert preferred_replica("b", 1, RACKS, {2: follower(10), 3: follower(10)}, 0) == 3


def test_only_replicas_that_have_the_offset_are_selected() -> None:
    assert preferred_replica("b", 1, RACKS, {2: follower(5), 3: follower(9)}, 6) == 3
    assert preferred_replica("b", 1, RACKS, {2: follower(5), 3: follower(9, start=7)}, 6) == LEADER
