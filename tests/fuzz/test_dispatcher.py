"""Invariant: whatever bytes a frame holds, dispatching it ends in an answer or in ProtocolError (the connection
closes with one line); nothing else comes out, no fault of ours is logged, the node goes on serving others, and its
memory stays bounded.

A whole node in this process, without sockets in between: fast enough for a million frames. KRAFT_FUZZ_SEED repeats a
run; inputs that found a bug are kept in `corpus/`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ProtocolError
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.registry import Handler
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.network.reply import Peer, Reply
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.framing import SIZE_BYTES, encode_request
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kraft.server.node import Node, run_node
from kraft.world.real import RealWorld
from tests.fuzz.dispatched import OBEYED, seed
from tests.fuzz.request_frames import RequestFrames

SOAK = os.environ.get("KRAFT_SOAK") == "1"
FRAMES = 125_000 if SOAK else 15_000
"""For the broker's listener, a fifth of it for the controller's, in each share: a soak throws a million at the one
and 200,000 at the other."""
SHARES = range(8 if SOAK else 1)
FRAMES_AT_ONCE = 200 if SOAK else 50
GROWTH_BYTES_MAX = 200 << 20
ANSWER_SECONDS_MAX = 0.02
"""A request that still waits then is cancelled, as if its client had gone."""
CORPUS = Path(__file__).parent / "corpus"
PEER = Peer("127.0.0.1", "PLAINTEXT", ("127.0.0.1", 9092))


class Faults:
    """The log's sink: keeps what should never be logged."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, event: Mapping[str, Any]) -> None:
        if event.get("event") == "request failed" or "traceback" in event:
            self.found.append(str(event.get("traceback", event)))


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def dispatch(dispatcher: RequestDispatcher, frame: bytes) -> bool:
    """Whether it was answered. Anything but an answer and ProtocolError is raised."""
    try:
        outcome: Reply | Awaitable[Reply] = dispatcher.dispatch(PEER, memoryview(frame))
        if not isinstance(outcome, Reply):
            with trio.move_on_after(ANSWER_SECONDS_MAX):
                outcome = await outcome
                assert isinstance(outcome, Reply)
        return True
    except ProtocolError:
        return False


class Fuzzing:
    """One node and what is thrown at it."""

    def __init__(self, node: Node, faults: Faults) -> None:
        assert node.broker is not None
        assert node.controller is not None
        self.broker = node.broker.dispatcher
        self.controller = node.controller.dispatcher
        self._cache = node.broker.metadata
        self.faults = faults

    @property
    def image(self) -> MetadataImage:
        return self._cache.image

    async def create_topics(self) -> None:
        """What frames name exists, also after one of them deleted it."""
        compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
        wanted = [
            CreatableTopic(name="fuzz", num_partitions=2, replication_factor=1),
            CreatableTopic(name="fuzz-compacted", num_partitions=1, replication_factor=1, configs=compacted),
        ]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=1000)
        await dispatch(self.broker, encode_request(ApiKey.CREATE_TOPICS, 7, 1, "fuzz", request)[SIZE_BYTES:])

    async def throw(self, dispatcher: RequestDispatcher, frames: list[bytes]) -> int:
        """All at once; returns how many were answered."""
        answered = 0

        async def one(frame: bytes) -> None:
            nonlocal answered
            try:
                understood = await dispatch(dispatcher, frame)
                answered += understood
            except Exception as problem:
                raise AssertionError(f"frame {frame.hex()}") from problem

        async with trio.open_nursery() as frames_nursery:
            for frame in frames:
                frames_nursery.start_soon(one, frame)
        assert not self.faults.found, f"one of {[frame.hex() for frame in frames]}:\n" + "\n".join(self.faults.found)
        return answered


def fuzz(directory: Path, body: Any) -> None:
    """Run `body(Fuzzing)` beside a node in this process."""

    async def main() -> None:
        faults = Faults()
        sets = [f"log.dirs={directory / 'data'}", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"]
        config = load_node_config(sets=[*sets, "offsets.topic.num.partitions=2", "group.initial.rebalance.delay.ms=0"])
        async with trio.open_nursery() as node_nursery:
            node: Node = await node_nursery.start(
                lambda task_status: run_node(config, RealWorld(log_sink=faults), task_status=task_status)
            )
            await body(Fuzzing(node, faults))
            node_nursery.cancel_scope.cancel()

    trio.run(main)


def handlers_of(dispatcher: RequestDispatcher) -> list[Handler]:
    return [handler for handler in dispatcher._registry.handlers() if handler.key not in OBEYED]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_no_malformed_frame_stops_the_dispatcher(tmp_path: Path, listener: str, share: int) -> None:
    chosen = seed()
    count = FRAMES if listener == "broker" else FRAMES // 5

    async def body(fuzzing: Fuzzing) -> None:
        dispatcher = getattr(fuzzing, listener)
        await fuzzing.create_topics()
        known = [topic.id for topic in fuzzing.image.topics.by_id.values()]
        frames = RequestFrames(f"{chosen} {listener} {share}", handlers_of(dispatcher), known)
        answered = 0
        start = 0
        for done in range(0, count, FRAMES_AT_ONCE):
            if done % 1000 == 0:
                await fuzzing.create_topics()
            if done == count // 5 // FRAMES_AT_ONCE * FRAMES_AT_ONCE:
                start = resident_bytes()
            answered += await fuzzing.throw(dispatcher, [frames.next_frame() for _ in range(FRAMES_AT_ONCE)])
        assert count // 10 < answered < count, "some frames are understood, some are not"
        assert resident_bytes() - start < GROWTH_BYTES_MAX

    fuzz(tmp_path, body)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.hex")), ids=lambda path: path.stem)
def test_frames_that_once_caused_a_failure_cause_none(tmp_path: Path, path: Path) -> None:
    """A file holds frames as hexadecimal lines; other lines, with #, say what they did. Its name begins with the
    listener's."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]

    async def body(fuzzing: Fuzzing) -> None:
        for line in lines:
            await fuzzing.throw(getattr(fuzzing, path.name.partition("-")[0]), [bytes.fromhex(line)])

    fuzz(tmp_path, body)
