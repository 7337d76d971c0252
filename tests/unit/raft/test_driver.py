"""The driver: one node and several in one loop, over real files and a network of function calls."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kraft.common.errors import ApiError, NotLeader, OutOfResources
from kraft.common.ids import OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from kraft.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kraft.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from kraft.protocol.messages.vote_request import VoteRequest
from kraft.protocol.schema import Message
from kraft.raft import wire_requests
from kraft.raft.core import messages as core
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.driver import RaftDriver
from kraft.raft.formatter import write_checkpoint
from kraft.raft.ports import LeaderAndEpoch
from kraft.raft.raft_config import RaftConfig, static_voter
from kraft.raft.snapshot.snapshot_path import BOOTSTRAP_ID, snapshot_name
from kraft.world.ports import Buffer
from kraft.world.real.files import RealFile, RealFileSystem
from tests.unit.raft.builders import RecordingListener, TextSerde, key_of, quiet_world, voter_of, voters_of

ENTRY = {
    VoteRequest: "vote",
    BeginQuorumEpochRequest: "begin_quorum_epoch",
    EndQuorumEpochRequest: "end_quorum_epoch",
    FetchRequest: "fetch",
    FetchSnapshotRequest: "fetch_snapshot",
    UpdateRaftVoterRequest: "update_raft_voter",
}


class Calls:
    """A RaftChannel that calls the other driver, through the bytes of the newest version. Nodes that are not there refuse."""

    def __init__(self) -> None:
        self.nodes: dict[int, RaftDriver] = {}

    async def send(self, node_id: int, host: str, port: int, request: Message, timeout_s: float) -> Message:
        node = self.nodes.get(port - 9000)
        if node is None:
            raise ConnectionRefusedError(f"{host}:{port}")
        version = request.VALID_VERSIONS[1]
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(supported_features=[SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)])
        received = type(request).decode(request.encode(version), version)
        answer: Message = await getattr(node, ENTRY[type(request)])(received, version)
        return type(answer).decode(answer.encode(version), version)


class Member:
    """One node: a driver and what its listener has heard."""

    def __init__(
        self, node_id: int, directory: Path, calls: Calls, static: VoterSet | None = None, files: RealFileSystem | None = None, **options: int
    ) -> None:
        self.id = node_id
        world, loggers = quiet_world(node_id)
        world.files = files or world.files
        quorum = QuorumConfig(
            local=key_of(node_id),
            endpoints=voter_of(node_id).endpoints,
            bootstrap=(voter_of(1).endpoints,),
            election_timeout_ms=60,
            fetch_timeout_ms=150,
            election_backoff_ms_max=60,
            fetch_wait_ms_max=30,
            request_timeout_ms=150,
        )
        config = RaftConfig(quorum=quorum, metadata_log_directory=str(directory), static_voters=static or VoterSet(), **options)
        self.driver = RaftDriver(config, world, calls, TextSerde(), loggers.get("raft"))
        self.listener = RecordingListener()
        self.driver.register(self.listener)
        self.calls = calls
        self.scope = trio.CancelScope()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with self.scope:
            self.calls.nodes[self.id] = self.driver
            await self.driver.run(task_status)
        self.calls.nodes.pop(self.id, None)

    @property
    def leads(self) -> bool:
        """As its own listener knows it."""
        return bool(self.listener.leaders) and self.listener.leaders[-1] == LeaderAndEpoch(self.id, self.driver.leader_and_epoch.epoch)


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - the condition is any state of any node, and nobody announces it.
            await trio.sleep(0.002)


@asynccontextmanager
async def running(*members: Member) -> AsyncIterator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        for member in members:
            await nursery.start(member.run)
        yield nursery
        nursery.cancel_scope.cancel()


def alone(tmp_path: Path, files: RealFileSystem | None = None, **options: int) -> Member:
    return Member(1, tmp_path, Calls(), VoterSet([static_voter(1, "127.0.0.1", 9001)]), files, **options)


class TightFile(RealFile):
    """Half of what is appended fits while the disk is full."""

    __slots__ = ("disk",)

    def append(self, buffers: Sequence[Buffer]) -> int:
        if self.disk.free and not self.disk.fails:
            return super().append(buffers)
        if self.disk.free:
            raise OSError(errno.EIO, "the disk is broken")
        self.disk.refused.append(self.path)
        whole = b"".join(bytes(buffer) for buffer in buffers)
        super().append([whole[: len(whole) // 2]])
        raise OSError(errno.ENOSPC, "no space")


class TightDisk(RealFileSystem):
    """Full while `free` is 0."""

    def __init__(self) -> None:
        self.free = 1 << 30
        self.fails = False
        self.refused: list[str] = []

    def open(self, path: str, **options: bool) -> TightFile:
        plain = super().open(path, **options)
        file = TightFile(path, os.dup(plain.descriptor), options.get("writable", True))
        file.disk = self
        plain.close()
        return file

    def free_bytes(self, path: str) -> int:
        return self.free


def three(tmp_path: Path) -> list[Member]:
    """Formatted as a dynamic quorum of three."""
    calls = Calls()
    for node_id in (1, 2, 3):
        format_voters(tmp_path / str(node_id), voters_of(1, 2, 3))
    return [Member(node_id, tmp_path / str(node_id), calls) for node_id in (1, 2, 3)]


def format_voters(directory: Path, voters: VoterSet) -> None:
    metadata = directory / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    write_checkpoint(RealFileSystem(), str(metadata), snapshot_name(BOOTSTRAP_ID), TextSerde(), (), voters, 1, 0, 0)


def run(body: Callable[[], object]) -> None:
    trio.run(body)  # type: ignore[arg-type]


def test_a_lone_node_leads_commits_and_remembers(tmp_path: Path) -> None:
    async def first() -> None:
        member = alone(tmp_path)
        async with running(member):
            await until(lambda: member.leads)
            assert member.driver.append(1, ["a", "b"]) == 2
            await until(lambda: member.listener.records == ["a", "b"])
            assert member.driver.known_high_watermark() == 3
            with pytest.raises(NotLeader):
                member.driver.append(2, ["x"])

    async def second() -> None:
        member = alone(tmp_path)
        assert member.driver.known_high_watermark() is None
        async with running(member):
            await until(lambda: member.leads)
            assert member.listener.records == ["a", "b"], "leadership is told after everything before it"
            assert member.driver.leader_and_epoch == LeaderAndEpoch(1, 2)

    run(first)
    run(second)


def test_everything_that_waits_shares_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        member = alone(tmp_path)
        async with running(member):
            await until(lambda: member.leads)
            syncs = []
            log = member.driver._storage.log
            original = log.sync
            monkeypatch.setattr(log, "sync", lambda: (syncs.append(1), original()))
            for number in range(500):
                member.driver.append(1, [str(number)])
            await until(lambda: len(member.listener.records) == 500)
            assert len(syncs) <= 3

    run(body)


def test_a_failed_sync_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        member = alone(tmp_path)

        def fail() -> None:
            raise OSError(5, "Input/output error")

        with pytest.raises(BaseExceptionGroup) as failed:
            async with running(member):
                await until(lambda: member.leads)
                monkeypatch.setattr(member.driver._storage.log, "sync", fail)
                member.driver.append(1, ["lost"])
                await trio.sleep(10)
        assert failed.group_contains(OSError, match="Input/output")
        assert member.listener.records == []

    run(body)


def test_large_appends_are_split_or_refused(tmp_path: Path) -> None:
    async def body() -> None:
        member = alone(tmp_path, batch_bytes_max=100)
        async with running(member):
            await until(lambda: member.leads)
            with pytest.raises(ApiError) as refused:
                member.driver.append(1, ["x" * 60, "y" * 60])
            assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
            member.driver.append(1, ["x" * 60, "y" * 60], atomic=False)
            await until(lambda: len(member.listener.records) == 2)

    run(body)


def test_a_snapshot_replaces_the_past(tmp_path: Path) -> None:
    async def first() -> None:
        member = alone(tmp_path, retention_bytes=1, segment_bytes=200)
        async with running(member):
            await until(lambda: member.leads)
            last = [member.driver.append(1, [f"record {number}"]) for number in range(50)][-1]
            await until(lambda: member.listener.end_offset == last + 1)
            assert member.driver.create_snapshot(OffsetAndEpoch(last + 5, 1), 0) is None, "not committed yet"
            writer = member.driver.create_snapshot(OffsetAndEpoch(last + 1, 1), 123)
            assert writer is not None
            writer.append(["summary"])
            await writer.freeze()
            writer.close()
            assert member.driver.latest_snapshot == OffsetAndEpoch(last + 1, 1)
            assert member.driver.create_snapshot(OffsetAndEpoch(last + 1, 1), 123) is None
            await until(lambda: member.driver.log_start_offset == last + 1)
            member.driver.append(1, ["after"])
            await until(lambda: member.listener.records[-1] == "after")

    async def second() -> None:
        member = alone(tmp_path)
        async with running(member):
            await until(lambda: member.leads)
            assert member.listener.records == ["summary", "after"]
            assert member.listener.snapshots == [51]

    run(first)
    run(second)


def test_shutdown_of_a_lone_node_does_not_hang(tmp_path: Path) -> None:
    async def body() -> None:
        member = alone(tmp_path)
        with trio.fail_after(3):
            async with trio.open_nursery() as nursery:
                await nursery.start(member.run)
                await until(lambda: member.leads)
                await member.driver.shutdown()

    run(body)


def test_who_asks_a_node_that_has_left_is_told_so(tmp_path: Path) -> None:
    async def body() -> None:
        member = alone(tmp_path)

        async def ask(epoch: int) -> None:
            request = wire_requests.TO_WIRE[core.FetchRequest](core.FetchRequest(key_of(9), epoch, member.driver.log_end_offset, epoch, max_wait_ms=60_000))
            with pytest.raises(ApiError) as refused:
                await member.driver.fetch(request)
            assert refused.value.code == ErrorCode.BROKER_NOT_AVAILABLE

        with trio.fail_after(3):
            async with trio.open_nursery() as nursery:
                async with running(member):
                    await until(lambda: member.leads)
                    nursery.start_soon(ask, 1)
                    await until(lambda: member.driver._waiting)
            await ask(1)

    run(body)


def test_three_nodes_agree_and_survive_the_death_of_the_leader(tmp_path: Path) -> None:
    async def body() -> None:
        members = three(tmp_path)
        async with running(*members):
            await until(lambda: any(member.leads for member in members))
            leader = next(member for member in members if member.leads)
            leader.driver.append(leader.driver.leader_and_epoch.epoch, ["one", "two"])
            await until(lambda: all(member.listener.records == ["one", "two"] for member in members))
            leader.scope.cancel()
            rest = [member for member in members if member is not leader]
            await until(lambda: any(member.leads for member in rest))
            successor = next(member for member in rest if member.leads)
            successor.driver.append(successor.driver.leader_and_epoch.epoch, ["three"])
            await until(lambda: all(member.listener.records == ["one", "two", "three"] for member in rest))
            returned = Member(leader.id, tmp_path / str(leader.id), leader.calls)
            async with running(returned):
                await until(lambda: returned.listener.records == ["one", "two", "three"])
                description = await successor.driver.describe_quorum(DescribeQuorumRequest(), 2)
                (part,) = description.topics[0].partitions  # type: ignore[attr-defined]
                assert (part.leader_id, [state.replica_id for state in part.current_voters]) == (successor.id, [1, 2, 3])
                assert [node.listeners[0].port for node in description.nodes] == [9001, 9002, 9003]  # type: ignore[attr-defined]

    run(body)


def test_a_leader_that_leaves_hands_over(tmp_path: Path) -> None:
    async def body() -> None:
        members = three(tmp_path)
        async with running(*members):
            await until(lambda: any(member.leads for member in members))
            leader = next(member for member in members if member.leads)
            with trio.fail_after(2):
                await leader.driver.shutdown()
            await until(lambda: any(member.leads for member in members if member is not leader))

    run(body)


def test_a_node_that_is_behind_the_log_gets_the_snapshot(tmp_path: Path) -> None:
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
            request = AddRaftVoterRequest(timeout_ms=5_000, voter_id=2, voter_directory_id=key_of(2).directory_id, listeners=listeners)
            answer = await first.driver.add_raft_voter(request)
            assert answer.error_code == ErrorCode.NONE, answer  # type: ignore[attr-defined]
            assert first.driver.voters.ids == (1, 2)
            await until(lambda: second.driver.voters.ids == (1, 2))
            removed = await first.driver.remove_raft_voter(RemoveRaftVoterRequest(voter_id=1, voter_directory_id=key_of(1).directory_id))
            assert removed.error_code == ErrorCode.NONE  # type: ignore[attr-defined]
            await until(lambda: second.leads)
            assert second.driver.voters.ids == (2,)

    run(body)


def test_kraft_version_is_raised_once_every_voter_has_reported(tmp_path: Path) -> None:
    async def body() -> None:
        calls = Calls()
        static = VoterSet(static_voter(node_id, "127.0.0.1", 9000 + node_id) for node_id in (1, 2))
        members = [Member(node_id, tmp_path / str(node_id), calls, static) for node_id in (1, 2)]
        async with running(*members):
            await until(lambda: any(member.leads for member in members))
            leader = next(member for member in members if member.leads)
            assert leader.driver.kraft_version == 0
            with trio.fail_after(5):
                while (await leader.driver.update_kraft_version(1)).error != ErrorCode.NONE:  # noqa: ASYNC110 - asked until the voters have reported.
                    await trio.sleep(0.02)
            await until(lambda: all(member.driver.kraft_version == 1 for member in members))
            assert all(voter.key == key_of(voter.key.id) for voter in leader.driver.voters.voters)

    run(body)


def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    async def body() -> None:
        disk = TightDisk()
        member = alone(tmp_path, disk)
        async with running(member):
            await until(lambda: member.leads)
            member.driver.append(1, ["a"])
            await until(lambda: member.listener.records == ["a"])
            disk.free = 0
            with pytest.raises(ApiError) as refused:
                member.driver.require_room()
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
            member.driver.append(1, ["b", "c"])  # Accepted a moment before: it waits.
            await until(lambda: disk.refused)
            member.driver.append(1, ["d"])
            await trio.sleep(0.05)
            assert member.listener.records == ["a"]
            assert member.driver.known_high_watermark() == 2
            disk.free = 1 << 30
            await until(lambda: member.listener.records == ["a", "b", "c", "d"])
            member.driver.require_room()
        again = alone(tmp_path)
        async with running(again):
            await until(lambda: again.listener.records == ["a", "b", "c", "d"])

    run(body)


def test_an_election_waits_for_a_full_disk(tmp_path: Path) -> None:
    async def body() -> None:
        disk = TightDisk()
        member = alone(tmp_path, disk)
        disk.free = 0
        async with running(member):
            await until(lambda: any("quorum-state" in path for path in disk.refused))
            assert not member.leads
            assert not (tmp_path / "__cluster_metadata-0" / "quorum-state").exists()
            disk.free = 1 << 30
            await until(lambda: member.leads)

    run(body)


def test_a_disk_that_fails_otherwise_ends_the_node(tmp_path: Path) -> None:
    async def body() -> None:
        disk = TightDisk()
        member = alone(tmp_path, disk)
        async with running(member):
            await until(lambda: member.leads)
            disk.fails = True
            member.driver.append(1, ["a"])
            await trio.sleep(10)

    with pytest.raises(BaseExceptionGroup) as failed:
        trio.run(body)
    assert failed.group_contains(OSError, match="broken")


def test_a_snapshot_for_which_there_is_no_room_leaves_nothing_behind(tmp_path: Path) -> None:
    async def body() -> None:
        disk = TightDisk()
        member = alone(tmp_path, disk)
        async with running(member):
            await until(lambda: member.leads)
            member.driver.append(1, ["a"])
            await until(lambda: member.listener.records == ["a"])
            disk.free = 0
            with pytest.raises(OutOfResources):
                member.driver.create_snapshot(OffsetAndEpoch(2, 1), 0)
            disk.free = 1 << 30
            writer = member.driver.create_snapshot(OffsetAndEpoch(2, 1), 0)
            assert writer is not None
            writer.append(["a"])
            disk.free = 0
            with pytest.raises(OutOfResources):
                await writer.freeze()
            writer.close()
            assert not [name for name in disk.list_directory(f"{tmp_path}/__cluster_metadata-0") if "checkpoint" in name or name.endswith(".part")]

    run(body)
