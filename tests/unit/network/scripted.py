"""A listener whose dispatcher does what the first byte of a request says, over real loopback sockets, and a peer's
side of it."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.common.errors import ProtocolError
from kraft.common.logging import Loggers
from kraft.network.limits import ConnectionCounts, ConnectionLimits
from kraft.network.reply import NO_REPLY, FirstStage, Peer, Reply, Staged, inside
from kraft.network.socket_server import SocketServer
from kraft.world.ports import Stream
from kraft.world.real import RealWorld


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class ScriptedDispatcher:
    """Commands by first byte: e = echo, a = echo later (waits for `gate`), p = the same but may overtake, n = no
    reply, x = protocol error, c = close after,

    m = echo and mute for a day, q = mute for 50 ms without a reply,

    k = close without a reply, b = a fault of ours, at once or (p..b) later, l = a reply of 8 MB, s = the same as p
    in stages (the test ends the first).
    """

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.stages: list[FirstStage] = []
        self.started: list[bytes] = []

    def may_overtake_wait(self, data: memoryview) -> bool:
        return bytes(data[:1]) in (b"p", b"s")

    def dispatch(self, peer: Peer, data: memoryview) -> Reply | Awaitable[Reply]:
        command = bytes(data)
        self.started.append(command)
        if command[:1] == b"x":
            raise ProtocolError("scripted")
        if command[:1] == b"b":
            raise AssertionError("scripted")
        if command[:1] == b"n":
            return NO_REPLY
        if command[:1] == b"m":
            return Reply((frame(command),), throttle_ms=86_400_000)
        if command[:1] == b"q":
            return Reply((), throttle_ms=50)
        if command[:1] == b"k":
            return Reply((), close_after=True)
        if command[:1] == b"l":
            return Reply((frame(bytes(8 << 20)),))
        if command[:1] == b"s":
            stage = FirstStage(1)
            self.stages.append(stage)
            return Staged(self._staged(stage, data), stage)
        if command[:1] in (b"a", b"p") and not command.endswith(b"!"):
            return inside(self._later(command), self._wrapped)
        return Reply((frame(command),), close_after=command[:1] == b"c")

    async def _staged(self, stage: FirstStage, data: memoryview) -> Reply:
        """The frame is read when the stage is over, as it has to last until then."""
        kept = [b""]
        stage.when_over(lambda: kept.__setitem__(0, bytes(data)))
        await stage.wait()
        await self.gate.wait()
        return Reply((frame(kept[0][:8]),))

    async def _wrapped(self, outcome: Awaitable[Reply]) -> Reply:
        """As the node's dispatcher awaits its handlers."""
        return await outcome

    async def _later(self, command: bytes) -> Reply:
        await self.gate.wait()
        assert not command.endswith(b"b"), "scripted"
        return Reply((frame(command),))


class Running:
    def __init__(
        self, server: SocketServer, dispatcher: ScriptedDispatcher, world: RealWorld, port: int, events: list[Any]
    ) -> None:
        self.server, self.dispatcher, self.world, self.port, self.events = server, dispatcher, world, port, events
        self.streams: list[Stream] = []

    async def connect(self) -> Stream:
        stream = await self.world.network.connect("127.0.0.1", self.port)
        self.streams.append(stream)
        return stream


@asynccontextmanager
async def running(limits: ConnectionLimits | None = None) -> AsyncIterator[Running]:
    events: list[Any] = []
    world = RealWorld(log_sink=events.append)
    dispatcher = ScriptedDispatcher()
    log = Loggers(world.log_sink, world.clock).get("network")
    server = SocketServer(world, "PLAINTEXT", limits or ConnectionLimits(), ConnectionCounts(), dispatcher, log)
    listener = await world.network.listen("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: server.run(listener, task_status=task_status))
        run = Running(server, dispatcher, world, listener.port, events)
        try:
            yield run
        finally:
            for stream in run.streams:
                stream.close()
            nursery.cancel_scope.cancel()


async def receive(stream: Stream, count: int) -> bytes:
    """Exactly `count` bytes, or fewer when the stream ends."""
    data = bytearray(count)
    filled = 0
    with trio.fail_after(10):
        while filled < count:
            got = stream.receive_nowait(memoryview(data)[filled:])
            if got is None:
                await stream.wait_readable()
            elif got == 0:
                break
            else:
                filled += got
    return bytes(data[:filled])


async def reply(stream: Stream) -> bytes:
    (size,) = struct.unpack(">i", await receive(stream, 4))
    return await receive(stream, size)


async def ended(stream: Stream) -> bool:
    try:
        return await receive(stream, 1) == b""
    except ConnectionError:
        return True


def scenario(play: Callable[[Running], Awaitable[None]], limits: ConnectionLimits | None = None) -> None:
    async def main() -> None:
        with trio.fail_after(20):
            async with running(limits) as run:
                await play(run)

    trio.run(main)


async def eventually(condition: Callable[[], bool]) -> None:
    """Let the loop turn until `condition` holds; the scenario's own deadline bounds it."""
    while not condition():
        await trio.lowlevel.checkpoint()
