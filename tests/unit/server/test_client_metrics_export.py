"""Pushes on their way to an OTLP receiver: one request at a time, none repeated, and a push never waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import trio

from kraft.common.logging import Loggers
from kraft.security.tls import TlsSettings
from kraft.server.client_metrics_export import REQUEST_SECONDS_MAX, ClientMetricsExport
from kraft.telemetry.export import DROPPED, FAILED, QUEUE_PUSHES_MAX, SENT
from kraft.telemetry.otlp import read_push
from kraft.world.ports import Stream
from kraft.world.simulated import Universe
from kraft.world.steps import at_once
from tests.unit.server.brokers import simulate
from tests.unit.telemetry.pushes import gauge, number, part, point, push

PUSH = push(gauge("a", point(1)))


class Receiver:
    """Answers each request with `status`; None: not at all."""

    def __init__(self, universe: Universe) -> None:
        self.world = universe.world_for("receiver")
        self.status: int | None = 200
        self.body = b""
        self.asked: list[tuple[float, bytes, bytes]] = []
        """Time, head and body of each request."""
        self.url = ""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        listener = await self.world.network.listen("0.0.0.0", 80)
        self.url = f"http://node-receiver:{listener.port}/v1/metrics"
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._answer, await listener.accept())

    async def _answer(self, stream: Stream) -> None:
        buffer, read, size = bytearray(4096), b"", None
        while size is None or len(read.partition(b"\r\n\r\n")[2]) < size:
            count = stream.receive_nowait(memoryview(buffer))
            if count is None:
                await stream.wait_readable()
                continue
            read += bytes(buffer[:count])
            head = read.partition(b"\r\n\r\n")[0].lower()
            size = int(head.partition(b"content-length: ")[2].split()[0])
        head, _, body = read.partition(b"\r\n\r\n")
        self.asked.append((self.world.clock.now(), head, body))
        if self.status is not None:
            await stream.send_all([b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (self.status, len(self.body))])
            await stream.send_all([self.body] if self.body else [])
            stream.close()


Play = Callable[[Receiver, ClientMetricsExport, list[Any]], Awaitable[None]]


def played(play: Play) -> None:
    async def main(universe: Universe) -> None:
        async with trio.open_nursery() as nursery:
            receiver = Receiver(universe)
            await nursery.start(lambda task_status: receiver.run(task_status=task_status))
            world = universe.world_for("a")
            told: list[Any] = []
            log = Loggers(told.append, world.clock).get("telemetry")
            export = ClientMetricsExport(world, receiver.url, TlsSettings(values={}, is_server=False), log)
            nursery.start_soon(export.run)
            await play(receiver, export, told)
            nursery.cancel_scope.cancel()

    simulate(main, seconds_max=10_000.0)


def told_of(told: list[Any], text: str) -> int:
    return sum(text in str(each) for each in told)


def test_a_push_is_sent_with_the_attributes_of_its_client() -> None:
    async def play(receiver: Receiver, export: ClientMetricsExport, told: list[Any]) -> None:
        receiver.body = part(1, number(1, 2))
        export.offer(PUSH, {"client_id": "billing"})
        await receiver.world.clock.sleep(1)
        [(_, head, body)] = receiver.asked
        assert head.startswith(b"POST /v1/metrics HTTP/1.1")
        assert b"application/x-protobuf" in head
        assert at_once(read_push(memoryview(body))).labels == {"client_id": "billing"}
        assert (export.queue.pushes[SENT], export.queue.rejected_points) == (1, 2)

    played(play)


def test_pushes_that_fail_are_counted_and_not_sent_again_and_the_next_wait_longer() -> None:
    async def play(receiver: Receiver, export: ClientMetricsExport, told: list[Any]) -> None:
        receiver.status = 503
        for _ in range(60):
            export.offer(PUSH, {})
            await receiver.world.clock.sleep(1)
        times = [time for time, _, _ in receiver.asked]
        pauses = [round(after - before) for before, after in pairwise(times)]
        assert pauses == [1, 2, 4, 8, 16]
        assert export.queue.pushes[SENT] == 0
        assert export.queue.pushes[FAILED] + export.queue.waiting == 60
        assert told_of(told, "could not be forwarded") == 1
        receiver.status = 200
        await receiver.world.clock.sleep(60)
        assert export.queue.pushes[SENT] + export.queue.pushes[FAILED] == 60
        assert told_of(told, "forwarded again") == 1

    played(play)


def test_a_receiver_that_does_not_answer_holds_up_no_push() -> None:
    async def play(receiver: Receiver, export: ClientMetricsExport, told: list[Any]) -> None:
        receiver.status = None
        export.offer(PUSH, {})
        await receiver.world.clock.sleep(1)
        for _ in range(QUEUE_PUSHES_MAX + 3):
            export.offer(PUSH, {})
        assert export.queue.pushes[DROPPED] == 3
        assert told_of(told, "too many wait") == 1
        await receiver.world.clock.sleep(REQUEST_SECONDS_MAX)
        assert export.queue.pushes[FAILED] == 1

    played(play)
