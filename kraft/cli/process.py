"""One node in one process: the trio run, signals, the ready line, the HTTP admin's thread, and a shutdown of bounded
time."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import trio

from kraft.cli.admin_tls import AdminTls, admin_tls
from kraft.cli.heap import Heap
from kraft.cli.http_admin import AdminThread, bind_admin
from kraft.cli.service_manager import service_manager
from kraft.cli.terminal import print_ready, process_age_ms, ready_line
from kraft.common.config.endpoints import Address, Endpoint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError, KraftError
from kraft.world.ports import World

if TYPE_CHECKING:
    from kraft_http.ports import AdminPort


CANCELLED_SECONDS_MAX = 1.0
"""Time for cancelled tasks to end after the shutdown deadline. Only a task that waits for the kernel needs more."""


class ServingNode(Protocol):
    """The node that `run_node` passes on once it serves: registered, unfenced, listening."""

    @property
    def cluster_id(self) -> str: ...
    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every listener with its bound port."""

    @property
    def admin_service(self) -> AdminPort: ...
    def watch_admin_certificate(self, chain: Callable[[], str]) -> None:
        """Report the expiry of the HTTP admin's certificate, as for listeners. `chain` returns it in PEM form."""

    def begin_shutdown(self) -> None:
        """Hand over leaderships, flush, and let `run_node` return. Idempotent."""


RunNode = Callable[..., Awaitable[None]]
"""`run_node(config, world, task_status=...)`: `task_status.started(ServingNode)` when it serves; returns after a
shutdown; raises for a fault."""


def serve_process(config: NodeConfig, world: World, run_node: RunNode) -> None:
    """Run until a signal requests the stop. Raises the error that stopped the node otherwise; ConfigurationError if it
    could not start."""
    trio.run(_Process(config, world, run_node).run)


class _Process:
    """Owns the resources of which a process has one. Its state is used by the trio loop only."""

    def __init__(self, config: NodeConfig, world: World, run_node: RunNode) -> None:
        self.config = config
        self.world = world
        self.run_node = run_node
        self.node: ServingNode | None = None
        self.node_scope = trio.CancelScope()
        self.stopping = False
        self.admin_socket: socket.socket | None = None
        self.admin: AdminThread | None = None
        self.admin_tls: AdminTls | None = None
        self.heap = Heap()
        self.manager = service_manager(os.environ, world.log_sink)

    async def run(self) -> None:
        self.admin_tls = admin_tls(self.world, self.config)
        self.admin_socket = bind_admin(self.config.admin_address)
        try:
            async with trio.open_nursery() as process_nursery:
                await process_nursery.start(self.watch_signals, process_nursery)
                process_nursery.start_soon(self.manager.keep_alive, self.world.clock)
                if self.admin_tls is not None:
                    process_nursery.start_soon(self.admin_tls.follow_files)
                with self.node_scope:
                    await self.live()
                process_nursery.cancel_scope.cancel()
        finally:
            if self.admin is not None:
                self.admin.stop()
            if self.admin_socket is not None:
                self.admin_socket.close()

    async def live(self) -> None:
        """The node's whole life, from start to the end of its shutdown."""
        async with trio.open_nursery() as node_nursery:
            node: ServingNode = await node_nursery.start(self.run_node, self.config, self.world)
            self.node = node
            self.announce(node)
            if self.stopping:
                node.begin_shutdown()

    def announce(self, node: ServingNode) -> None:
        """Print the ready line, then start what was not needed before it."""
        by_name = {endpoint.name: endpoint for endpoint in node.endpoints}
        broker = next((by_name[endpoint.name] for endpoint in self.config.broker_listeners), None)
        controller = next((by_name[endpoint.name] for endpoint in self.config.controller_listeners), None)
        admin_url = self.admin_url()
        line = ready_line(
            self.config.node_id, self.config.roles, broker, controller, admin_url, node.cluster_id, process_age_ms()
        )
        print_ready(line, broker, admin_url)
        self.manager.serving(line)
        if self.admin_socket is None:
            self.heap.begin()
            return
        if self.admin_tls is not None:
            node.watch_admin_certificate(self.admin_tls.certificate_chain)
        self.admin = AdminThread(
            self.admin_socket,
            node.admin_service,
            self.world.log_sink,
            None if self.admin_tls is None else self.admin_tls.context,
            self.heap,
        )
        self.admin.start()

    def admin_url(self) -> str | None:
        """The URL of the HTTP admin; None if it is off."""
        if self.admin_socket is None:
            return None
        host, port = self.admin_socket.getsockname()[:2]
        return f"{'http' if self.admin_tls is None else 'https'}://{Address(host, port)}"

    async def watch_signals(
        self, process_nursery: trio.Nursery, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Shut down at the first signal; stop immediately at the second."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            task_status.started()
            async for signal_number in signals:
                if self.stopping:
                    os._exit(128 + signal_number)
                self.stopping = True
                self.watch_the_end()
                self.manager.stopping()
                self.world.log_sink(
                    {"level": "info", "event": "stopping", "signal": signal.Signals(signal_number).name}
                )
                process_nursery.start_soon(self.end_in_time)
                if self.node is not None:
                    self.node.begin_shutdown()

    def watch_the_end(self) -> None:
        """End the process even if it hangs: a thread that waits for a disk that does not answer cannot be cancelled,
        and the loop may wait for that thread."""
        seconds = self.config.seconds("kraft.shutdown.timeout.ms") + CANCELLED_SECONDS_MAX
        watchdog = threading.Timer(seconds, _give_up, (seconds,))
        watchdog.daemon = True
        watchdog.start()

    async def end_in_time(self) -> None:
        """Cancel a shutdown that takes too long. A node that does not serve yet stops without a controlled shutdown."""
        if self.node is not None:
            seconds = self.config.seconds("kraft.shutdown.timeout.ms")
            await self.world.clock.sleep(seconds)
            self.world.log_sink({"level": "warning", "event": "shutdown_cut_short", "after_seconds": seconds})
        self.node_scope.cancel()


def _give_up(seconds: float) -> None:
    """Exit, on the watchdog's thread. The disk is left as after kill -9, which recovery handles."""
    sys.stderr.write(f"kraft-node: not stopped after {seconds:g} s: something, most likely a disk, does not answer\n")
    sys.stderr.flush()
    os._exit(1)


def configuration_problems(error: BaseException) -> list[str]:
    """The configuration problems in `error`: a port in use, a directory of another node."""
    return [problem for leaf in _leaves(error) if isinstance(leaf, ConfigurationError) for problem in leaf.problems]


def fault_reason(error: BaseException) -> str:
    """One line with the reason why the process ends. A traceback for developers goes to stderr before it."""
    first = next((leaf for leaf in _leaves(error) if not isinstance(leaf, trio.Cancelled)), error)
    if not isinstance(first, OSError | KraftError):
        traceback.print_exception(error, file=sys.stderr)
    return f"{first} ({type(first).__name__})" if str(first) else type(first).__name__


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
