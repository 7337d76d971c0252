"""Several drivers: they agree, hand over, catch up by a snapshot, and change their voters."""

from __future__ import annotations

from pathlib import Path

import trio

from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kraft.raft import wire_requests
from kraft.raft.core import messages as core
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.raft_config import static_voter
from tests.unit.raft.builders import key_of, voters_of
from tests.unit.raft.members import Calls, Member, format_voters, leader_of, run, running, three, until


def test_three_nodes_agree_and_survive_the_death_of_the_leader(tmp_path: Path) -> None:
    async def body() -> None:
        members = three(tmp_path)
        async with running(*members):
            leader = await leader_of(members)
            leader.driver.append(leader.driver.leader_and_epoch.epoch, ["one", "two"])
            await until(lambda: all(member.listener.records == ["one", "two"] for member in members))
            leader.scope.cancel()
            rest = [member for member in members if member is not leader]
            successor = await leader_of(rest)
            successor.driver.append(successor.driver.leader_and_epoch.epoch, ["three"])
            await until(lambda: all(member.listener.records == ["one", "two", "three"] for member in rest))
            returned = Member(leader.id, tmp_path / str(leader.id), leader.calls)
            async with running(returned):
                await until(lambda: returned.listener.records == ["one", "two", "three"])
                description = await successor.driver.describe_quorum(DescribeQuorumRequest(), 2)
                (part,) = description.topics[0].partitions  # type: ignore[attr-defined]
                assert (part.leader_id, [state.replica_id for state in part.current_voters]) == (
                    successor.id,
                    [1, 2, 3],
                )
                assert [node.listeners[0].port for node in description.nodes] == [9001, 9002, 9003]  # type: ignore[attr-defined]

    run(body)


def test_a_vote_with_the_largest_epoch_does_not_stop_the_quorum(tmp_path: Path) -> None:
    """One such request a voter, and a thousand more: an epoch beyond it could be stored and never be sent."""

    async def body() -> None:
        members = three(tmp_path)
        async with running(*members):
            leader = await leader_of(members)
            leader.driver.append(leader.driver.leader_and_epoch.epoch, ["before"])
            await until(lambda: all(member.listener.records == ["before"] for member in members))
            request = wire_requests.vote_to_wire(core.VoteRequest(2**31 - 1, key_of(9), 2**30, 1_000))
            for member in members:
                answer = await member.driver.requests.serve(request)
                (part,) = answer.topics[0].partitions  # type: ignore[attr-defined]
                assert (part.error_code, part.vote_granted) == (ErrorCode.INVALID_REQUEST, False)
                for _ in range(999):
                    await member.driver.requests.serve(request)
            leader.scope.cancel()
            rest = [member for member in members if member is not leader]
            successor = await leader_of(rest)
            successor.driver.append(successor.driver.leader_and_epoch.epoch, ["after"])
            await until(lambda: all(member.listener.records == ["before", "after"] for member in rest))
            assert successor.driver.leader_and_epoch.epoch < 100
            (told,) = [line for line in leader.lines if "elections cannot have reached" in line["event"]]
            assert told["refused"] == 1

    run(body)


def test_a_leader_that_shuts_down_hands_over_leadership(tmp_path: Path) -> None:
    async def body() -> None:
        members = three(tmp_path)
        async with running(*members):
            leader = await leader_of(members)
            with trio.fail_after(2):
                await leader.driver.shutdown()
            await until(lambda: any(member.leads for member in members if member is not leader))

    run(body)


def test_a_node_behind_the_log_start_gets_the_snapshot(tmp_path: Path) -> None:
    async def body() -> None:
        calls = Calls()
        for node_id in (1, 2):
            format_voters(tmp_path / str(node_id), voters_of(1))
        first = Member(1, tmp_path / "1", calls, retention_bytes=1, segment_bytes=200)
        async with running(first) as nursery:
            await until(lambda: first.leads)
            last = [first.driver.append(1, [f"record {number}"]) for number in range(40)][-1]
            await until(lambda: first.listener.end_offset == last + 1)
            writer = first.driver.create_snapshot(OffsetAndEpoch(last + 1, 1), 123)
            assert writer is not None
            writer.append([f"summary {number}" for number in range(1_000)])
            await writer.freeze()
            await until(lambda: first.driver.log_start_offset == last + 1)
            first.driver.append(1, ["after"])
            second = Member(2, tmp_path / "2", calls)
            await nursery.start(second.run)
            await until(lambda: second.listener.records[-1:] == ["after"])
            assert len(second.listener.records) == 1_001
            assert second.listener.snapshots == [last + 1]
            assert second.driver.log_start_offset == last + 1

    run(body)


def test_voters_are_added_and_removed(tmp_path: Path) -> None:
    async def body() -> None:
        calls = Calls()
        for node_id in (1, 2):
            format_voters(tmp_path / str(node_id), voters_of(1))
        first, second = Member(1, tmp_path / "1", calls), Member(2, tmp_path / "2", calls)
        async with running(first, second):
            await until(lambda: first.leads and second.listener.end_offset == first.driver.high_watermark > 0)
            await until(lambda: second.driver.log_end_offset == first.driver.log_end_offset)
            listeners = [Listener(name="CONTROLLER", host="127.0.0.1", port=9002)]
            request = AddRaftVoterRequest(
                timeout_ms=5_000, voter_id=2, voter_directory_id=key_of(2).directory_id, listeners=listeners
            )
            answer = await first.driver.requests.serve(request)
            assert answer.error_code == ErrorCode.NONE, answer  # type: ignore[attr-defined]
            assert first.driver.voters.ids == (1, 2)
            await until(lambda: second.driver.voters.ids == (1, 2))
            removed = await first.driver.requests.serve(
                RemoveRaftVoterRequest(voter_id=1, voter_directory_id=key_of(1).directory_id)
            )
            assert removed.error_code == ErrorCode.NONE  # type: ignore[attr-defined]
            await until(lambda: second.leads)
            assert second.driver.voters.ids == (2,)

    run(body)


def test_an_observer_adds_itself_to_the_voters_and_logs_the_response(tmp_path: Path) -> None:
    async def body() -> None:
        calls = Calls()
        format_voters(tmp_path / "1", voters_of(1))
        first = Member(1, tmp_path / "1", calls)
        second = Member(2, tmp_path / "2", calls, auto_join=True)
        async with running(first, second):
            await until(lambda: first.driver.voters.ids == second.driver.voters.ids == (1, 2))
            await until(lambda: second.driver.voters_are_committed)
        (logged,) = [line for line in second.lines if "change of the voters" in line["event"]]
        assert (logged["request"], logged["error"]) == ("AddVoterRequest", "NONE")

    run(body)


def test_kraft_version_is_raised_once_every_voter_has_reported(tmp_path: Path) -> None:
    async def body() -> None:
        calls = Calls()
        static = VoterSet(static_voter(node_id, "127.0.0.1", 9000 + node_id) for node_id in (1, 2))
        members = [Member(node_id, tmp_path / str(node_id), calls, static) for node_id in (1, 2)]
        async with running(*members):
            leader = await leader_of(members)
            assert leader.driver.kraft_version == 0
            with trio.fail_after(5):
                while (await leader.driver.requests.update_kraft_version(1)).error != ErrorCode.NONE:  # noqa: ASYNC110 - asked until the voters have reported.
                    await trio.sleep(0.02)
            await until(lambda: all(member.driver.kraft_version == 1 for member in members))
            assert all(voter.key == key_of(voter.key.id) for voter in leader.driver.voters.voters)

    run(body)
