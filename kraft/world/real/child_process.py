"""A child process that the kernel kills when this one ends.

Linux ties this (PR_SET_PDEATHSIG, see `worker_process`) to the thread that started the child. Idle threads of trio's
pool exit, so each child has a thread of its own, which then waits for the child's end.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence

import trio


class ChildProcess:
    """A child, created by `start_child`. Both pipes belong to this process."""

    def __init__(self, popen: subprocess.Popen[bytes], ended: trio.Event) -> None:
        self._popen = popen
        self._ended = ended
        assert popen.stdin is not None
        assert popen.stdout is not None
        with popen.stdin, popen.stdout:
            self.stdin = trio.lowlevel.FdStream(os.dup(popen.stdin.fileno()))
            self.stdout = trio.lowlevel.FdStream(os.dup(popen.stdout.fileno()))

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        return self._popen.returncode

    def send_signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        self._popen.kill()

    async def wait(self) -> None:
        """Wait until the child has ended."""
        await self._ended.wait()


async def start_child(command: Sequence[str], descriptors: Sequence[int]) -> ChildProcess:
    """Start a process that inherits `descriptors`. Raises OSError. Must not be cancelled: the child would be left
    running."""
    token = trio.lowlevel.current_trio_token()
    started, ended = trio.Event(), trio.Event()
    outcome: list[subprocess.Popen[bytes] | OSError] = []

    def keep() -> None:
        try:
            popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=descriptors)
        except OSError as problem:
            outcome.append(problem)
            _tell(token, started)
            return
        outcome.append(popen)
        _tell(token, started)
        popen.wait()
        _tell(token, ended)

    threading.Thread(target=keep, name="child process", daemon=True).start()
    await started.wait()
    (result,) = outcome
    if isinstance(result, OSError):
        raise result
    return ChildProcess(result, ended)


def _tell(token: trio.lowlevel.TrioToken, event: trio.Event) -> None:
    try:
        token.run_sync_soon(event.set)
    except trio.RunFinishedError:
        return  # No task waits any more.
