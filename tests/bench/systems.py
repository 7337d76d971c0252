"""The systems under test, started alike: one node, fresh directory, default flush settings, records acknowledged by
all in-sync replicas."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from jepsen.java.kafka import ApacheKafka
from kraft.testing.ports import free_ports


class System(Protocol):
    """One node that can be started, killed and started again on the same data and port."""

    name: str
    version: str
    port: int

    @property
    def pid(self) -> int: ...

    def prepare(self) -> None:
        """Whatever comes before the clock starts: formatting, where it is a step of its own."""

    def launch(self) -> None:
        """Start the process and return at once."""

    def kill(self) -> None:
        """SIGKILL."""


class KafkaSystem:
    """Apache Kafka with its own defaults (heap as its start script sets it)."""

    name = "kafka"
    version = "Apache Kafka 4.4.0"

    def __init__(
        self,
        directory: Path,
        port: int = 0,
        controller_port: int = 0,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.node = ApacheKafka(
            directory,
            port=port or None,
            controller_port=controller_port or None,
            settings=settings,
            heap="-Xmx1G -Xms1G",
            options=["-XX:+UseG1GC"],
        )
        self.port = self.node.port

    @property
    def pid(self) -> int:
        return self.node.pid

    def prepare(self) -> None:
        self.node.format()

    def launch(self) -> None:
        self.node.launch()

    def kill(self) -> None:
        self.node.kill()


class KraftSystem:
    """Our node, without its HTTP side unless asked: Kafka has none."""

    name = "kraft"
    version = "kraft"

    def __init__(
        self,
        directory: Path,
        port: int = 0,
        controller_port: int = 0,
        *,
        admin: str = "off",
        settings: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        """`features` are levels of the new cluster, where they are not the usual ones."""
        spare = free_ports(2)
        self.directory = directory
        self.port = port or spare[0]
        self.controller_port = controller_port or spare[1]
        self.admin = admin
        self.settings = [
            argument for name, value in (settings or {}).items() for argument in ("--set", f"{name}={value}")
        ]
        self.settings += [
            argument for name, level in (features or {}).items() for argument in ("--feature", f"{name}={level}")
        ]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> Path:
        return self.directory.with_suffix(".log")

    def prepare(self) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)

    def launch(self) -> None:
        script = Path(sys.executable).with_name("kraft-node")
        start = [str(script)] if script.exists() else [sys.executable, "-m", "kraft.cli.node"]
        listen = [
            "--listen",
            f"127.0.0.1:{self.port}",
            "--controller-listen",
            f"127.0.0.1:{self.controller_port}",
            "--admin",
            self.admin,
            *self.settings,
        ]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*start, "--role", "broker,controller", "--data-dir", str(self.directory), *listen],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(timeout=30)
        self.process = None


class SecondKafka(KafkaSystem):
    """Kafka in our place: proves the harness, whose ratios must then be about one."""

    name = "kafka2"


CLIENT_BYTES = 512 << 20
SETTLED_S = 0.3
"""Before the deleted pages are given back, and less than the two seconds after which a host takes them."""

KINDS: dict[str, type[KafkaSystem] | type[KraftSystem]] = {
    "kraft": KraftSystem,
    "kafka": KafkaSystem,
    "kafka2": SecondKafka,
}


def check_alive(system: System) -> None:
    """Raises RuntimeError when the node's process has ended."""
    status = Path(f"/proc/{system.pid}/stat").read_text().rpartition(")")[2].split()[0]
    if status == "Z":
        raise RuntimeError(f"{system.name} ended by itself")


def recycle_pages(directory: Path, size: int) -> None:
    """Write and delete `size` bytes where a system will write them now, and as many more as its client takes.

    A page of memory that the kernel has had in use costs 0.7 us to fill with a record's bytes, a fresh one up to ten
    times as much, in a virtual machine above all, whose host takes free pages back within seconds (free page
    reporting). It is that host's price, not the system's, so nobody pays it.
    """
    path, chunk = directory / "recycle", bytes(8 << 20)
    with open(path, "wb", buffering=0) as file:
        for _ in range((size + CLIENT_BYTES) // len(chunk)):
            file.write(chunk)
    path.unlink()
    time.sleep(SETTLED_S)
