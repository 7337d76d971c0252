"""Who is in sync, and how far the high watermark may go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.replication.isr_policy import (
    FollowerState,
    IsrRules,
    effective_min_isr,
    high_watermark,
    may_join_isr,
    shrunk_isr,
)

NOBODY_JOINS = IsrRules(lambda: 0.0, lambda: 30.0, lambda replica, epoch: False)


def follower(end: int, caught_up_at: float = 0.0) -> FollowerState:
    state = FollowerState(caught_up_at)
    state.log_end_offset = end
    return state


@given(
    ends=st.dictionaries(st.integers(min_value=2, max_value=5), st.integers(min_value=-1, max_value=100), min_size=1),
    leader_end=st.integers(min_value=0, max_value=100),
    current=st.integers(min_value=0, max_value=100),
    data=st.data(),
)
def test_the_high_watermark_advances_only_to_an_offset_that_every_isr_member_has(
    ends: dict[int, int], leader_end: int, current: int, data: st.DataObject
) -> None:
    isr = (1, *data.draw(st.lists(st.sampled_from(sorted(ends)), unique=True)))
    followers = {replica: follower(end) for replica, end in ends.items()}
    reached = high_watermark(leader_end, isr, 1, followers, current, isr_size=len(isr), min_isr=1, rules=NOBODY_JOINS)
    assert reached >= current
    if reached > current:
        assert reached <= leader_end
        assert all(ends[replica] >= reached for replica in isr if replica != 1)


def test_the_high_watermark_is_frozen_below_the_minimum_isr() -> None:
    assert high_watermark(10, (1,), 1, {}, 5, isr_size=1, min_isr=2, rules=NOBODY_JOINS) == 5


def test_an_isr_member_that_never_fetched_holds_the_high_watermark() -> None:
    assert high_watermark(10, (1, 2), 1, {}, 5, isr_size=2, min_isr=1, rules=NOBODY_JOINS) == 5


def test_the_effective_minimum_isr_cannot_exceed_the_replica_count() -> None:
    assert effective_min_isr(3, 1) == 1
    assert effective_min_isr(2, 3) == 2


def test_a_follower_that_lags_too_long_leaves_the_isr() -> None:
    followers = {2: follower(10), 3: follower(4, caught_up_at=0.0)}
    assert shrunk_isr((1, 2, 3), 1, followers, 10, now=31.0, lag_seconds_max=30.0) == (1, 2)
    assert shrunk_isr((1, 2, 3), 1, followers, 10, now=29.0, lag_seconds_max=30.0) == (1, 2, 3)


def test_a_follower_is_caught_up_when_its_last_fetch_reached_the_log_end() -> None:
    state = FollowerState(0.0)
    state.fetched(5, 0, leader_end=10, broker_epoch=1, now=1.0)
    assert state.caught_up_at == 0.0
    state.fetched(10, 0, leader_end=20, broker_epoch=1, now=2.0)
    assert state.caught_up_at == 1.0
    state.fetched(20, 0, leader_end=20, broker_epoch=1, now=3.0)
    assert state.caught_up_at == 3.0


def test_joining_the_isr_requires_all_committed_records_and_the_start_of_the_epoch() -> None:
    assert may_join_isr(follower(10), 10, 8)
    assert not may_join_isr(follower(9), 10, 8)
    assert not may_join_isr(follower(10), 10, 11)
