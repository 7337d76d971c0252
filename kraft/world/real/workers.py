"""Work processes. Each runs its own Python interpreter. It has pipes to this process, and shares the locks of the
node's log directories.

A directory stays locked until both processes have ended. So a node that starts after a kill -9 waits until the work of
the previous node has ended.

The kernel kills the work process when the node ends for any reason. That includes a frozen work process, which would
otherwise block the next start of the node.

A work process reports every second, between the steps of its work, that it is alive. A process that is stopped, hangs,
or waits for a failed disk reports nothing, and is killed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import trio

from kraft.world.ports import A, R, T, Ts, Work, WorkFailed
from kraft.world.real.child_process import ChildProcess, start_child
from kraft.world.real.worker_process import ALIVE, FAILED, LENGTH, RAISED, frame

RECEIVE_BYTES = 1 << 16
FRAME_BYTES_MAX = 1 << 24
"""Limit of the encoded size of a result. Results of the cleaner have some hundred bytes for each segment."""
SILENCE_SECONDS_MAX = 120.0
"""Timeout of one step, which may sync a segment to a slow disk."""
END_SECONDS_MAX = 10.0
"""How long the end of a killed process is waited for. It ends within milliseconds, unless it waits for a dead disk."""
_START = "import sys; sys.path[:] = {path!r}; from kraft.world.real.worker_process import main; main({parent})"


class RealWorkers:
    """Implements `kraft.world.ports.Workers`. `descriptors` are those of the held locks. A worker that is silent for
    `silence_seconds` is killed."""

    __slots__ = ("_descriptors", "silence_seconds")

    def __init__(self, descriptors: Callable[[], Iterable[int]]) -> None:
        self._descriptors = descriptors
        self.silence_seconds = SILENCE_SECONDS_MAX

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[RealWorker]:
        worker = RealWorker(self._descriptors, self.silence_seconds)
        try:
            yield worker
        finally:
            await worker.close()


class RealWorker:
    """Implements `kraft.world.ports.Worker`."""

    __slots__ = ("_descriptors", "_process", "_received", "_silence_seconds")

    def __init__(self, descriptors: Callable[[], Iterable[int]], silence_seconds: float) -> None:
        self._descriptors = descriptors
        self._silence_seconds = silence_seconds
        self._process: ChildProcess | None = None
        self._received = bytearray()

    async def begin(self, work: Work[A, R], argument: A) -> None:
        if self._process is None:
            self._process = await self._start()
        await self._in_time(self._send, (work, argument))

    async def _start(self) -> ChildProcess:
        command = [sys.executable, "-c", _START.format(path=sys.path, parent=os.getpid())]
        try:
            with trio.CancelScope(shield=True):  # A process that is started is known here, and so comes to its end.
                process = await start_child(command, tuple(self._descriptors()))
        except OSError as problem:
            raise WorkFailed(f"a work process cannot be started: {problem}") from problem
        return process

    async def next_result(self) -> Any:
        await self._in_time(self._send, None)
        what, value = ALIVE, None
        while what == ALIVE:
            what, value = await self._in_time(self._receive_frame)
        if what == RAISED:
            assert isinstance(value, OSError), "nothing else is told so"
            raise value
        if what == FAILED:
            raise WorkFailed(value)
        return value

    async def _in_time(self, function: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T:
        with trio.move_on_after(self._silence_seconds):
            return await function(*arguments)
        await self.close()
        raise WorkFailed(f"the work process gave no sign of life for {self._silence_seconds} s")

    async def _send(self, message: object) -> None:
        assert self._process is not None, "no work was begun"
        try:
            await self._process.stdin.send_all(frame(message))
        except trio.BrokenResourceError as problem:
            raise await self._died() from problem

    async def _receive_frame(self) -> tuple[str, Any]:
        (size,) = LENGTH.unpack(await self._receive(LENGTH.size))
        if size > FRAME_BYTES_MAX:
            await self.close()
            raise WorkFailed(f"a result of {size} bytes, more than {FRAME_BYTES_MAX}")
        what, value = pickle.loads(await self._receive(size))
        return what, value

    async def _receive(self, count: int) -> bytes:
        assert self._process is not None, "no work was begun"
        while len(self._received) < count:
            data = await self._process.stdout.receive_some(RECEIVE_BYTES)
            if not data:
                raise await self._died()
            self._received += data
        found = bytes(self._received[:count])
        del self._received[:count]
        return found

    async def _died(self) -> WorkFailed:
        process = self._process
        await self.close()
        return WorkFailed(f"the work process ended with status {None if process is None else process.returncode}")

    async def close(self) -> None:
        """End the process, at whatever step it is, and wait for its end.

        A process that waits for a dead disk cannot end. It is abandoned after END_SECONDS_MAX: it makes no further
        call, and keeps the locks of the directories until it ends.
        """
        process, self._process = self._process, None
        self._received.clear()
        if process is not None:
            process.kill()
            with trio.CancelScope(shield=True):
                for pipe in (process.stdin, process.stdout):
                    await pipe.aclose()
                with trio.move_on_after(END_SECONDS_MAX):
                    await process.wait()
