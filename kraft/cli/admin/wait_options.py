"""Retries for as long as the user wants to wait, and prints the reason."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from kraft.cli.admin.output import warn
from kraft.common.errors import ApiError
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.errors import DeadlinePassed, NoBroker
from kraft.rpc_client.partition_backoff import is_worth_waiting, may_pass

T = TypeVar("T")

PAUSE_SECONDS = 0.5


class WaitOptions:
    """`seconds` limits the time without a success; None is for ever. The reason is printed once for each such time,
    unless it is the same as before."""

    def __init__(self, cluster: Cluster, seconds: float | None) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._since: float | None = None
        self._said = ""

    async def keep(self, attempt: Callable[[], Awaitable[T]], *, for_topics: bool = False) -> T:
        """The result of `attempt` when it succeeds. An error that a retry cannot help is raised immediately. After the
        timeout the last error is raised. With `for_topics` it also waits for a topic that does not exist."""
        may_help = is_worth_waiting if for_topics else may_pass
        clock = self._cluster.world.clock
        while True:
            began = clock.now()
            try:
                found = await attempt()
            except (Disconnected, TimeoutError, NoBroker, DeadlinePassed, ApiError) as problem:
                if not (isinstance(problem, DeadlinePassed) or may_help(problem)):
                    raise
                if self._since is None:
                    self._since = began
                    self.tell(str(problem))
                if self._seconds is not None and clock.now() - self._since >= self._seconds:
                    raise
            else:
                self._since = None
                return found
            self._cluster.forget()
            await clock.sleep(PAUSE_SECONDS)

    def tell(self, reason: str) -> None:
        """Print the reason for waiting, unless it was printed last."""
        if reason != self._said:
            warn(f"kraft: waiting: {reason}")
        self._said = reason


async def until_signalled(scope: trio.CancelScope) -> None:
    """Cancel `scope` on Ctrl-C or SIGTERM, the usual end of reading: groups are left cleanly, and the command does not
    fail."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return
