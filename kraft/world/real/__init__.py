"""The real world: trio's clock and event loop, the kernel's files and sockets, worker threads.

What enters: a seed (tests only) and the sink that log events go to. What leaves: one `RealWorld`, the value that a
composition root hands to `run_node`. Only composition roots (`kraft.cli`, `kraft.testing`) and tests import this
package; an import-linter contract says so.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, TypeVarTuple

import trio

from kraft.world.ports import Login, ProcessUsage, Tls
from kraft.world.randomness import SeededRandomness, SystemRandomness
from kraft.world.real.clock import RealClock
from kraft.world.real.files import RealFileSystem
from kraft.world.real.loop import RealLoop
from kraft.world.real.network import RealNetwork
from kraft.world.real.objects import RealObjects
from kraft.world.real.process_usage import process_usage
from kraft.world.real.workers import RealWorkers

__all__ = ["RealWorld", "write_to_stderr"]

LogSink = Callable[[Mapping[str, Any]], None]


def write_to_stderr(line: Mapping[str, Any]) -> None:
    """The default log sink: writes each event to stderr as one line of JSON."""
    sys.stderr.write(json.dumps(line, default=str) + "\n")


class RealWorld:
    """One process's world. Several nodes of one process (tests) take one each, so that thread limits and random
    streams stay apart."""

    __slots__ = (
        "_log_sink",
        "clock",
        "environment",
        "files",
        "login",
        "loop",
        "network",
        "objects",
        "process_id",
        "random",
        "threads",
        "tls",
        "workers",
    )

    def __init__(
        self,
        *,
        seed: int | str | None = None,
        log_sink: LogSink = write_to_stderr,
        threads: int = 16,
        tls: Tls | None = None,
        login: Login | None = None,
    ) -> None:
        """`seed` makes random streams repeatable; without it they are seeded by the kernel. `threads` limits the worker
        threads of `threads.run`. `tls` and `login` are used for connections to Kafka nodes."""
        self.clock = RealClock()
        self.random = SystemRandomness() if seed is None else SeededRandomness(str(seed))
        self.files = RealFileSystem()
        self.network = RealNetwork()
        self.tls = tls
        self.login = login
        self.threads = RealThreads(threads)
        self.workers = RealWorkers(lambda: self.files.lock_descriptors)
        self.objects = RealObjects()
        self.loop = RealLoop()
        self.environment: Mapping[str, str] = dict(os.environ)
        self.process_id = os.getpid()
        self._log_sink = log_sink

    def process_usage(self) -> ProcessUsage | None:
        """See `World`."""
        return process_usage()

    def log_sink(self, line: Mapping[str, Any]) -> None:
        self._log_sink(line)


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RealThreads:
    """Implements `kraft.world.ports.Threads` over trio's thread cache. At most `limit` functions run at a time; others
    are queued."""

    __slots__ = ("_limiter",)

    def __init__(self, limit: int) -> None:
        self._limiter = trio.CapacityLimiter(limit)

    async def run(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        return await trio.to_thread.run_sync(function, *args, limiter=self._limiter)
