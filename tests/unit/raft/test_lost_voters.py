"""After a recovery of the quorum, the voters that were taken for lost come back with their old disks: what they can do
and what they cannot, in a simulated network."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import trio

from kraft.common.logging import Loggers
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from kraft.protocol.schema import Message
from kraft.raft.core.config import QuorumConfig
from kraft.raft.core.voter_set import VoterSet
from kraft.raft.driver import RaftDriver
from kraft.raft.formatter import write_checkpoint
from kraft.raft.quorum_recovery import carry_out, opened_survivor, plan_recovery
from kraft.raft.raft_config import RaftConfig, static_voter
from kraft.raft.snapshot.snapshot_path import BOOTSTRAP_ID, snapshot_name
from kraft.world.ports import FileSystem
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.raft.builders import RecordingListener, TextSerde, key_of, voter_of, voters_of
from tests.unit.world.simulated_pair import simulate

HOME = "/data"
METADATA = f"{HOME}/__cluster_metadata-0"
SURVIVOR, LOST = 3, (1, 2)
NODES = (*LOST, SURVIVOR)
STATIC = VoterSet(static_voter(node_id, "127.0.0.1", 9000 + node_id) for node_id in NODES)
SEEDS = range(3)


class Quorum:
    """The nodes that live, and who reaches whom. `static` is a quorum of kraft.version 0."""

    def __init__(self, universe: Universe, nursery: trio.Nursery, *, static: bool) -> None:
        self.universe = universe
        self.nursery = nursery
        self.static = static
        self.nodes: dict[int, Node] = {}
        self.cut = set[frozenset[int]]()

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.nodes[node_id] = Node(self, node_id)
            self.nursery.start_soon(self.nodes[node_id].live)

    def power_off(self) -> None:
        for node_id in list(self.nodes):
            self.universe.power_off(node_id)
        self.nodes.clear()

    def separate(self, *node_ids: int) -> None:
        """These reach one another only."""
        self.cut = {frozenset((one, other)) for one in node_ids for other in NODES if other not in node_ids}

    async def until(self, condition: Callable[[], object], seconds: float = 120) -> None:
        for _ in range(int(seconds * 20)):
            if condition():
                return
            await self.universe.sleep(0.05)
        raise TimeoutError([(node.driver.leader_and_epoch, node.listener.records) for node in self.nodes.values()])

    async def leader_among(self, *node_ids: int) -> Node:
        found: list[Node] = []

        def leads() -> bool:
            found[:] = [self.nodes[node_id] for node_id in node_ids if self.nodes[node_id].leads]
            return bool(found)

        await self.until(leads)
        return found[0]

    async def write(self, text: str, *node_ids: int) -> None:
        """One of these leads and commits it, and all of them know."""
        leader = await self.leader_among(*node_ids)
        leader.driver.append(leader.driver.leader_and_epoch.epoch, [text])
        await self.until(lambda: all(text in self.nodes[node_id].listener.records for node_id in node_ids))

    async def send(self, source: int, port: int, request: Message) -> Message:
        target = port - 9000
        clock = self.universe.world_of(source).clock
        await clock.sleep(self.universe.stream(f"{source}{clock.now()}").uniform(0.0005, 0.02))
        node = self.nodes.get(target)
        if node is None or node.ended is not None or frozenset((source, target)) in self.cut:
            raise ConnectionRefusedError(f"node {target}")
        if isinstance(request, ApiVersionsRequest):
            known = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            return ApiVersionsResponse(supported_features=[known])
        version = request.VALID_VERSIONS[1]
        answer = await node.driver.requests.serve(type(request).decode(request.encode(version), version), version)
        await clock.sleep(self.universe.stream(f"{target}{clock.now()}").uniform(0.0005, 0.02))
        if frozenset((source, target)) in self.cut:
            raise ConnectionResetError(f"node {target}")
        decoded: Message = type(answer).decode(answer.encode(version), version)
        return decoded


class Channel:
    """A node's way to the others."""

    def __init__(self, quorum: Quorum, node_id: int) -> None:
        self._quorum, self._node_id = quorum, node_id

    async def send(self, node_id: int, host: str, port: int, request: Message, timeout_s: float) -> Message:
        return await self._quorum.send(self._node_id, port, request)


class Node:
    """One life of a node. `ended` is why it stopped by itself."""

    def __init__(self, quorum: Quorum, node_id: int) -> None:
        self.id = node_id
        self.universe = quorum.universe
        self.world = quorum.universe.world_for(node_id)
        loggers = Loggers(self.world.log_sink, self.world.clock)
        told = config(node_id, quorum.static)
        self.driver = RaftDriver(told, self.world, Channel(quorum, node_id), TextSerde(), loggers.get("raft"))
        self.listener = RecordingListener()
        self.driver.register(self.listener)
        self.ended: AssertionError | None = None

    @property
    def leads(self) -> bool:
        return bool(self.listener.leaders) and self.listener.leaders[-1].leader_id == self.id and self.driver.is_leader

    async def live(self) -> None:
        async def body(world: SimulatedWorld) -> None:
            await self.driver.run()

        try:
            await self.universe.live(self.world, body)
        except* AssertionError as group:
            self.ended = next(error for error in group.exceptions if isinstance(error, AssertionError))


def config(node_id: int, static: bool) -> RaftConfig:
    quorum = QuorumConfig(
        local=key_of(node_id),
        endpoints=voter_of(node_id).endpoints,
        bootstrap=tuple(voter_of(each).endpoints for each in NODES),
    )
    return RaftConfig(quorum=quorum, metadata_log_directory=HOME, static_voters=STATIC if static else VoterSet())


def lay_out(files: FileSystem, static: bool) -> None:
    files.make_directories(METADATA)
    files.sync_directory("/")
    files.sync_directory(HOME)
    if not static:
        write_checkpoint(files, METADATA, snapshot_name(BOOTSTRAP_ID), TextSerde(), (), voters_of(*NODES), 1, 0, 0)


async def lose_and_recover(quorum: Quorum, *, behind: bool) -> None:
    """A quorum of three that has committed "before", and "unseen" too if the survivor is `behind`. Then the power
    fails everywhere, and the survivor is recovered, leads and commits "after"."""
    for node_id in NODES:
        lay_out(quorum.universe.world_for(node_id).files, quorum.static)
    quorum.start(*NODES)
    await quorum.write("before", *NODES)
    if behind:
        quorum.separate(*LOST)
        await quorum.write("unseen", *LOST)
    quorum.power_off()
    quorum.separate(SURVIVOR)
    world = quorum.universe.world_for(SURVIVOR)
    with opened_survivor(world.files, config(SURVIVOR, quorum.static), TextSerde()) as (storage, found):
        carry_out(storage, found, plan_recovery(found, world.random.stream("recover")), 1_000)
    quorum.start(SURVIVOR)
    await quorum.write("after", SURVIVOR)


def simulated(seed: int, static: bool, story: Callable[[Quorum], object]) -> None:
    async def fate(universe: Universe) -> None:
        async with trio.open_nursery() as nursery:
            await story(Quorum(universe, nursery, static=static))  # type: ignore[misc]
            nursery.cancel_scope.cancel()

    simulate(fate, seed)


def settled(quorum: Quorum, node_id: int) -> bool:
    """Whether it has what the recovered node has, or has ended since it had committed something else."""
    node, recovered = quorum.nodes[node_id], quorum.nodes[SURVIVOR]
    if node.ended is not None:
        return "committed records would be lost" in str(node.ended)
    return node.listener.records == recovered.listener.records and not node.driver.is_leader


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_lost_voters_that_reach_the_recovered_node_follow_it(seed: int, behind: bool, static: bool) -> None:
    """They vote no more, and drop what it does not have."""

    async def story(quorum: Quorum) -> None:
        await lose_and_recover(quorum, behind=behind)
        recovered = quorum.nodes[SURVIVOR]
        led = recovered.driver.leader_and_epoch
        quorum.cut.clear()
        quorum.start(*random.Random(seed).sample(LOST, 2))
        await quorum.until(lambda: all(settled(quorum, node_id) for node_id in LOST))
        await quorum.write("at last", SURVIVOR)
        await quorum.until(lambda: all(settled(quorum, node_id) for node_id in LOST))
        assert recovered.listener.records == ["before", "after", "at last"]
        assert recovered.driver.leader_and_epoch == led, "it led all the time"
        for node_id in LOST:
            node = quorum.nodes[node_id]
            assert node.ended is None
            assert node.driver.voters.ids == (SURVIVOR,)
        quorum.separate(*LOST)
        await quorum.universe.sleep(20)
        assert not any(quorum.nodes[node_id].driver.is_leader for node_id in LOST), "who has heard of it stays fenced"

    simulated(seed, static, story)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_isolated_lost_voters_form_a_second_quorum_until_they_reach_the_recovered_node(
    seed: int, behind: bool, static: bool
) -> None:
    """Nothing on their disks can tell them. The recovered node is not disturbed when they reach it: they follow it, or
    end, where they know that they had committed something else."""

    async def story(quorum: Quorum) -> None:
        await lose_and_recover(quorum, behind=behind)
        recovered = quorum.nodes[SURVIVOR]
        led = recovered.driver.leader_and_epoch
        quorum.separate(SURVIVOR)
        quorum.start(*LOST)
        await quorum.write("second", *LOST)
        assert (await quorum.leader_among(*LOST)).driver.leader_and_epoch.epoch < led.epoch // 2
        quorum.cut.clear()
        await quorum.until(lambda: all(settled(quorum, node_id) for node_id in LOST))
        assert all(quorum.nodes[node_id].ended is not None for node_id in LOST)
        await quorum.write("at last", SURVIVOR)
        assert recovered.listener.records == ["before", "after", "at last"]
        assert recovered.driver.leader_and_epoch == led, "it led all the time"

    simulated(seed, static, story)
