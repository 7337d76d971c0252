"""A process with a node that does nothing but live: for tests of what belongs to the process. Run as `python -m
tests.unit.cli.stub_node MODE [options]`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import trio
from kraft_http.ports import AdminPort

from kraft.cli.node import configure, run_process
from kraft.cli.options import parse_command_line
from kraft.common.config.endpoints import Endpoint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError
from kraft.world.ports import World


class StubNode:
    """Serves nobody. Its shutdown takes as long as `mode` says."""

    cluster_id = "4L6g3nShT-eMCtK--X86sw"

    def __init__(self, config: NodeConfig) -> None:
        self.endpoints: tuple[Endpoint, ...] = tuple(
            endpoint._replace(port=endpoint.port or 7000) for endpoint in config.listeners
        )
        self.stop = trio.Event()

    @property
    def admin_service(self) -> AdminPort:
        raise ValueError("the stub has no admin service")

    def watch_admin_certificate(self, chain: Callable[[], str]) -> None:
        raise ValueError("the stub reports no certificates")

    def begin_shutdown(self) -> None:
        self.stop.set()


async def run_stub(
    config: NodeConfig, world: World, *, task_status: trio.TaskStatus[StubNode] = trio.TASK_STATUS_IGNORED
) -> None:
    mode = os.environ["STUB_MODE"]
    if mode == "unusable":
        raise ConfigurationError(["--data-dir: /nowhere belongs to another cluster"])
    if mode == "fault":
        raise OSError(28, "No space left on device")
    if mode == "never ready":
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()
    node = StubNode(config)
    task_status.started(node)
    if mode == "asked":
        os.kill(os.getpid(), signal.SIGTERM)
    if mode in ("hangs", "two signals", "thread hangs", "loop hangs"):
        os.kill(os.getpid(), signal.SIGINT)
    await node.stop.wait()
    if mode == "two signals":
        os.kill(os.getpid(), signal.SIGINT)
    if mode in ("hangs", "two signals"):
        await trio.sleep_forever()
    if mode == "thread hangs":
        await world.threads.run(_never_answered)
    if mode == "loop hangs":
        _never_answered()
    world.log_sink({"event": "stub stopped"})


def _never_answered() -> None:
    """As a write to a disk that does not come back."""
    os.read(os.pipe()[0], 1)


if __name__ == "__main__":
    sys.exit(run_process(configure(parse_command_line(sys.argv[1:])), run_stub))
