"""Nodes of a quorum in one loop: drivers over real files, and a network of function calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from kraft.common.logging import Loggers, LogLine
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from kraft.protocol.schema import Message
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.driver import RaftDriver
from kraft.raft.formatter import write_checkpoint
from kraft.raft.ports import LeaderAndEpoch
from kraft.raft.raft_config import RaftConfig, static_voter
from kraft.raft.snapshot.snapshot_path import BOOTSTRAP_ID, snapshot_name
from kraft.world.real import RealWorld
from kraft.world.real.files import RealFileSystem
from tests.unit.raft.builders import RecordingListener, TextSerde, key_of, voter_of, voters_of


class Calls:
    """A RaftChannel that calls the other driver, through the bytes of the newest version. Nodes that are not there
    refuse."""

    def __init__(self) -> None:
        self.nodes: dict[int, RaftDriver] = {}

    async def send(self, node_id: int, host: str, port: int, request: Message, timeout_s: float) -> Message:
        node = self.nodes.get(port - 9000)
        if node is None:
            raise ConnectionRefusedError(f"{host}:{port}")
        version = request.VALID_VERSIONS[1]
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(
                supported_features=[SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)]
            )
        received = type(request).decode(request.encode(version), version)
        answer: Message = await node.requests.serve(received, version)
        return type(answer).decode(answer.encode(version), version)


class Member:
    """One node: a driver and what its listener has heard."""

    def __init__(
        self,
        node_id: int,
        directory: Path,
        calls: Calls,
        static: VoterSet | None = None,
        files: RealFileSystem | None = None,
        *,
        auto_join: bool = False,
        **options: int,
    ) -> None:
        self.id = node_id
        self.lines: list[LogLine] = []
        world = RealWorld(seed=node_id, log_sink=self.lines.append)
        loggers = Loggers(world.log_sink, world.clock)
        world.files = files or world.files
        quorum = QuorumConfig(
            local=key_of(node_id),
            endpoints=voter_of(node_id).endpoints,
            bootstrap=(voter_of(1).endpoints,),
            auto_join=auto_join,
            election_timeout_ms=600,
            fetch_timeout_ms=1500,
            election_backoff_ms_max=60,
            fetch_wait_ms_max=30,
            request_timeout_ms=1500,
        )
        config = RaftConfig(
            quorum=quorum, metadata_log_directory=str(directory), static_voters=static or VoterSet(), **options
        )
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
        return bool(self.listener.leaders) and self.listener.leaders[-1] == LeaderAndEpoch(
            self.id, self.driver.leader_and_epoch.epoch
        )


async def until(condition: Callable[[], object], seconds: float = 60) -> None:
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - the condition is any state of any node, and nobody announces it.
            await trio.sleep(0.002)


async def leader_of(members: Sequence[Member]) -> Member:
    """Whoever of them leads, when one does."""
    await until(lambda: any(member.leads for member in members))
    return next(member for member in members if member.leads)


@asynccontextmanager
async def running(*members: Member) -> AsyncIterator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        for member in members:
            await nursery.start(member.run)
        yield nursery
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def leading(member: Member) -> AsyncIterator[None]:
    """A node alone, from when it leads."""
    async with running(member):
        await until(lambda: member.leads)
        yield


def alone(tmp_path: Path, files: RealFileSystem | None = None, **options: int) -> Member:
    return Member(1, tmp_path, Calls(), VoterSet([static_voter(1, "127.0.0.1", 9001)]), files, **options)


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
