"""Voter sets and their history."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.common.ids import ZERO_UUID
from kraft.raft.core.voter_set import ReplicaKey, VoterSet, VoterSetHistory
from tests.unit.raft.builders import key_of, voter_of, voters_of


def majorities(voters: VoterSet) -> list[set[int]]:
    return [set(chosen) for chosen in combinations(voters.ids, voters.majority)]


@given(st.sets(st.integers(1, 6), min_size=1), st.sets(st.integers(1, 6), min_size=1))
def test_majorities_overlap_exactly_when_every_pair_of_majorities_intersects(a: set[int], b: set[int]) -> None:
    first, second = voters_of(*a), voters_of(*b)
    assert first.overlaps_majority(second) == all(x & y for x in majorities(first) for y in majorities(second))


def test_voter_sets_that_differ_in_one_voter_overlap() -> None:
    for count in range(1, 7):
        assert voters_of(*range(count)).overlaps_majority(voters_of(*range(count + 1)))


def test_a_voter_is_identified_by_id_and_directory_together() -> None:
    voters = voters_of(1, 2)
    assert voters.contains(key_of(1))
    assert not voters.contains(ReplicaKey(1, b"another director"))
    assert not voters.contains(ReplicaKey(1))


def test_a_voter_without_a_known_directory_is_found_by_its_id() -> None:
    voters = VoterSet([voter_of(1)._replace(key=ReplicaKey(1, ZERO_UUID))])
    assert voters.contains(ReplicaKey(1, b"whatever it is.."))


def test_two_voters_with_the_same_id_are_refused() -> None:
    with pytest.raises(ValueError, match="two voters"):
        VoterSet([voter_of(1), voter_of(1)])


def test_truncation_removes_later_voter_sets_from_the_history() -> None:
    history = VoterSetHistory(voters_of(1), 1)
    history.add(10, voters_of(1, 2))
    history.add(20, voters_of(1, 2, 3))
    assert history.at(11) == (voters_of(1, 2), 1)
    assert history.at(10) == (voters_of(1), 1)
    history.truncate_to(20)
    assert (history.latest, history.latest_offset) == (voters_of(1, 2), 10)
    history.truncate_to(0)
    assert (history.latest, history.latest_offset) == (voters_of(1), -1)
