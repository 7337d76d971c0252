"""A follower: what it appends, where it truncates, what it acknowledges."""

from __future__ import annotations

import pytest

from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.core import events
from kraft.raft.core import messages as m
from kraft.raft.core.effects import Truncate
from kraft.raft.core.log_state import Batch
from kraft.raft.core.messages import LeaderHint
from tests.unit.raft.builders import node, voter_of
from tests.unit.raft.core.steps import THREE, ask, follower, leader, replies, sends


def test_a_sync_from_before_a_truncation_does_not_cover_later_records() -> None:
    replica = follower(epochs=(1, 1, 1))
    generation = replica.log.generation
    replica._q.truncate(1)
    replica._q.append(Batch(1, 2, 5))
    replica.step(events.LogFlushed(3, generation), 1)
    assert replica.log.flushed_end == 1


def test_a_follower_truncates_to_where_the_logs_agree() -> None:
    replica = node(1, THREE, epochs=(1, 1, 2, 2))
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    effects = replica.step(
        events.ResponseReceived(
            message.correlation, m.FetchResponse(LeaderHint(2, 5), high_watermark=0, diverging=OffsetAndEpoch(3, 1))
        ),
        10,
    )
    assert effects.log == (Truncate(2),)
    (again,) = sends(effects, m.FetchRequest)
    assert (again.request.offset, again.request.last_fetched_epoch) == (2, 1)  # type: ignore[union-attr]


def test_records_below_the_high_watermark_are_never_truncated() -> None:
    replica = node(1, THREE, epochs=(1, 1, 2, 2))
    replica.log.high_watermark = 3
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    with pytest.raises(AssertionError, match="committed"):
        replica.step(
            events.ResponseReceived(
                message.correlation, m.FetchResponse(LeaderHint(2, 5), diverging=OffsetAndEpoch(3, 1))
            ),
            10,
        )


def test_a_follower_appends_syncs_and_then_acknowledges() -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    response = m.FetchResponse(LeaderHint(2, 5), high_watermark=9, batches=(Batch(0, 2, 5), Batch(3, 3, 5)))
    effects = replica.step(events.ResponseReceived(message.correlation, response), 10)
    assert [type(stage).__name__ for stage in effects.stages()] == ["Append", "Flush", "Send", "Apply"]
    assert effects.high_watermark == 4, "not more than we have"


@pytest.mark.parametrize(
    "batches",
    [
        (Batch(1, 2, 5),),
        (Batch(0, 2, 6),),
        (Batch(0, 2, 5), Batch(4, 4, 5)),
        (Batch(0, 2, 5), Batch(3, 3, 4)),
        (Batch(0, (1 << 63) - 1, 5),),
    ],
)
def test_batches_that_do_not_continue_the_log_are_not_appended(batches: tuple[Batch, ...]) -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    replica.step(
        events.ResponseReceived(
            message.correlation, m.FetchResponse(LeaderHint(2, 5), high_watermark=9, batches=batches)
        ),
        10,
    )
    assert replica.log.end_offset == 0


@pytest.mark.parametrize(
    "snapshot", [OffsetAndEpoch(-1, 4), OffsetAndEpoch((1 << 63) - 1, 4), OffsetAndEpoch(9, -1), OffsetAndEpoch(9, 6)]
)
def test_a_snapshot_that_no_leader_of_the_epoch_can_have_is_not_fetched(snapshot: OffsetAndEpoch) -> None:
    replica = node(1, THREE)
    (message,) = sends(ask(replica, m.BeginQuorumEpochRequest(5, 2, voter_of(2).endpoints)), m.FetchRequest)
    response = m.FetchResponse(LeaderHint(2, 5), snapshot=snapshot)
    effects = replica.step(events.ResponseReceived(message.correlation, response), 10)
    assert not effects, "it is asked again after a while"
    assert sends(replica.step(events.Tick(), 40), m.FetchRequest)


@pytest.mark.parametrize("kind", [m.BeginQuorumEpochRequest, m.EndQuorumEpochRequest])
def test_a_second_leader_of_the_same_epoch_is_refused(kind: type[m.Request]) -> None:
    for replica, epoch, known in ((follower(leader=2, epoch=5), 5, 2), (leader(), 1, 1)):
        assert (replica.epoch, replica.election.leader_id) == (epoch, known)
        (answer,) = replies(ask(replica, kind(epoch, 3)))  # type: ignore[call-arg]  # Both begin with these.
        assert answer.error == ErrorCode.INVALID_REQUEST
        assert (replica.epoch, replica.election.leader_id) == (epoch, known)
