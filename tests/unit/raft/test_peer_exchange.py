"""One request to a peer: whatever it answers, the core hears of it."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.common.ids import OffsetAndEpoch
from kraft.common.logging import Loggers
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import (
    add_raft_voter_response,
    begin_quorum_epoch_response,
    end_quorum_epoch_response,
    fetch_response,
    fetch_snapshot_response,
    vote_response,
    voters_record,
)
from kraft.protocol.records.control_record import ControlRecordType, build_control_batch
from kraft.protocol.schema import Message
from kraft.raft.core import events
from kraft.raft.core import messages as core
from kraft.raft.core.effects import Send
from kraft.raft.peer_exchange import PeerExchange
from kraft.world.real import RealWorld
from tests.unit.raft.builders import key_of, quiet_world, voter_of


def fetched(*partitions: fetch_response.PartitionData) -> fetch_response.FetchResponse:
    return fetch_response.FetchResponse(responses=[fetch_response.FetchableTopicResponse(partitions=list(partitions))])


def voters_batch(*node_ids: int) -> bytes:
    versions = voters_record.KRaftVersionFeature()
    voters = [
        voters_record.Voter(
            voter_id=i, voter_directory_id=key_of(i).directory_id, endpoints=[], kraft_version_feature=versions
        )
        for i in node_ids
    ]
    entries = [(ControlRecordType.KRAFT_VOTERS, voters_record.VotersRecord(voters=voters).encode(0))]
    return build_control_batch(entries, base_offset=0, timestamp_ms=1, leader_epoch=1)


class Answers:
    """A RaftChannel on which every peer gives one answer."""

    def __init__(self, answer: Message) -> None:
        self._answer = answer

    async def send(self, node_id: int, host: str, port: int, request: Message, timeout_s: float) -> Message:
        return self._answer


def heard(request: core.Request, answer: Message) -> events.Event:
    """What the core is told of that answer to that request."""
    told: list[events.Event] = []
    world, loggers = quiet_world()

    async def body() -> None:
        exchange = PeerExchange(Answers(answer), world.clock, "CONTROLLER", 1.0, told.append, loggers.get("raft"))
        await exchange.run(Send(2, voter_of(2).endpoints, 7, request))

    trio.run(body)
    (event,) = told
    return event


def test_a_peer_that_refuses_this_nodes_principal_is_logged_at_most_once_per_interval() -> None:
    lines: list[Any] = []
    world = RealWorld(seed=1, log_sink=lines.append)
    refused = vote_response.VoteResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def body() -> None:
        log = Loggers(world.log_sink, world.clock).get("raft")
        exchange = PeerExchange(Answers(refused), world.clock, "CONTROLLER", 1.0, lambda event: None, log)
        for correlation in (7, 8):
            await exchange.run(Send(2, voter_of(2).endpoints, correlation, core.VoteRequest(1, key_of(1), 0, 0)))

    trio.run(body)
    (line,) = lines
    assert "name this node's principal in super.users there" in line["event"]
    assert line["to"] == 2


def test_a_refused_change_of_the_voters_is_logged_at_most_once_per_interval() -> None:
    lines: list[Any] = []
    world = RealWorld(seed=1, log_sink=lines.append)
    refused = add_raft_voter_response.AddRaftVoterResponse(
        error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="node 1 has not caught up with the leader"
    )

    async def body() -> None:
        log = Loggers(world.log_sink, world.clock).get("raft")
        exchange = PeerExchange(Answers(refused), world.clock, "CONTROLLER", 1.0, lambda event: None, log)
        for correlation in (7, 8):
            await exchange.run(Send(2, voter_of(2).endpoints, correlation, core.AddVoterRequest(voter_of(1))))

    trio.run(body)
    (line,) = lines
    assert (line["request"], line["error"]) == ("AddVoterRequest", "REQUEST_TIMED_OUT")
    assert line["problem"] == "node 1 has not caught up with the leader"


FETCH = core.FetchRequest(key_of(1), 1, 0, 0)
MALFORMED: dict[str, tuple[core.Request, Message]] = {
    "vote": (
        core.VoteRequest(1, key_of(1), 0, 0),
        vote_response.VoteResponse(topics=[vote_response.TopicData(partitions=[])]),
    ),
    "begin": (
        core.BeginQuorumEpochRequest(1, 1, voter_of(1).endpoints),
        begin_quorum_epoch_response.BeginQuorumEpochResponse(
            topics=[begin_quorum_epoch_response.TopicData(partitions=[])]
        ),
    ),
    "end": (
        core.EndQuorumEpochRequest(1, 1, (), voter_of(1).endpoints),
        end_quorum_epoch_response.EndQuorumEpochResponse(topics=[end_quorum_epoch_response.TopicData(partitions=[])]),
    ),
    "fetch": (FETCH, fetched()),
    "fetch, damaged": (FETCH, fetched(fetch_response.PartitionData(records=voters_batch(1, 2)[:-1] + b"?"))),
    "fetch, a voter twice": (FETCH, fetched(fetch_response.PartitionData(records=voters_batch(1, 1)))),
    "fetch snapshot": (
        core.FetchSnapshotRequest(key_of(1), 1, OffsetAndEpoch(5, 1), 0),
        fetch_snapshot_response.FetchSnapshotResponse(topics=[fetch_snapshot_response.TopicSnapshot(partitions=[])]),
    ),
}


@pytest.mark.parametrize(("request_", "answer"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_peer_response_counts_as_a_failed_request(request_: core.Request, answer: Message) -> None:
    assert heard(request_, answer) == events.RequestFailed(7)


def test_a_peer_response_is_matched_to_its_request() -> None:
    event = heard(FETCH, fetched(fetch_response.PartitionData(records=voters_batch(1, 2))))
    assert isinstance(event, events.ResponseReceived)
    assert isinstance(event.response, core.FetchResponse)
    assert (event.correlation, [batch.last_offset for batch in event.response.batches]) == (7, [0])
