"""What must never be asked of a replica's own state: each assertion is tripped once."""

from __future__ import annotations

import pytest

from kraft.raft.core.election_state import ElectionState
from kraft.raft.core.log_state import Batch
from kraft.raft.core.quorum_state import QuorumState
from kraft.raft.core.roles import (
    MOVES,
    TRANSITIONS,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from tests.unit.raft.builders import key_of, node
from tests.unit.raft.core.steps import THREE


def state(election: ElectionState) -> QuorumState:
    return node(1, THREE, epochs=(1, 1, 2), election=election)._q


@pytest.mark.parametrize(
    ("election", "told"),
    [
        (ElectionState(4), "epoch 5 would fall to 4"),
        (ElectionState(1 << 31), "does not exist"),
        (ElectionState(5, 2, key_of(3)), "a second vote in epoch 5"),
        (ElectionState(5, 2), "a second vote in epoch 5"),
        (ElectionState(5, 3, key_of(2)), "a second leader in epoch 5"),
        (ElectionState(5, -1, key_of(2)), "a second leader in epoch 5"),
    ],
)
def test_an_election_state_that_reverts_an_epoch_leader_or_vote_is_not_persisted(
    election: ElectionState, told: str
) -> None:
    q = state(ElectionState(5, 2, key_of(2)))
    with pytest.raises(AssertionError, match=told):
        q._persist(election)
    assert q.election == ElectionState(5, 2, key_of(2))
    assert q.take_effects().election is None


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        (Batch(4, 4, 2), "does not continue the log at 3"),
        (Batch(2, 3, 2), "does not continue the log at 3"),
        (Batch(3, 2, 2), "batch from 3 to 2"),
        (Batch(3, 3, 1), "epoch 1 after epoch 2"),
    ],
)
def test_a_batch_that_does_not_continue_the_log_is_not_appended(batch: Batch, told: str) -> None:
    log = state(ElectionState(5)).log
    with pytest.raises(AssertionError, match=told):
        log.append(batch)
    assert (log.end_offset, log.last_epoch) == (3, 2)


@pytest.mark.parametrize(("offset", "told"), [(4, "truncation to 4"), (0, "committed records would be lost")])
def test_a_log_is_not_truncated_beyond_its_end_or_below_its_high_watermark(offset: int, told: str) -> None:
    log = state(ElectionState(5)).log
    log.high_watermark = 1
    with pytest.raises(AssertionError, match=told):
        log.truncate_to(offset)
    assert (log.end_offset, log.generation) == (3, 0)


ROLES: tuple[Role, ...] = (
    Unattached(9),
    Prospective((1, 2, 3), 1, 9, ()),
    Candidate((1, 2, 3), 1, 9),
    Follower(2, (), 9, 9, 9),
    Leader(3, 9),
    Resigned(9, (2, 3), ()),
)


@pytest.mark.parametrize("source", ROLES, ids=lambda role: role.name)
@pytest.mark.parametrize("target", ROLES, ids=lambda role: role.name)
def test_only_the_role_transitions_of_the_table_are_allowed(source: Role, target: Role) -> None:
    q = state(ElectionState(5))
    q.role = source
    if (source.name, target.name) in MOVES:
        q._enter(target)
        assert q.role is target
    else:
        with pytest.raises(AssertionError, match=f"a {source.name} does not become a {target.name}"):
            q._enter(target)


def test_the_transition_table_names_every_role_and_no_other() -> None:
    names = {role.name for role in ROLES}
    assert {transition.source for transition in TRANSITIONS} == names
    assert {transition.target for transition in TRANSITIONS} == names
    assert len(MOVES) == len(TRANSITIONS)
