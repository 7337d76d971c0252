"""Drills: a real cluster is brought into an incident, and put right by the commands of a page in docs/operations.

What each incident makes `kraft cluster health`, `kraft doctor` and the alerts say, and within which time, is read from
the table of docs/operations/README.md. The commands are read from the blocks of the incident's page. What the page
does on a node's machine (`systemctl`, `chronyc`, an editor) is done by functions of the drill.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import trio

from jepsen.preload.page import Page, build
from jepsen.three_nodes import NODES, ThreeNodes, assert_nothing_lost, until
from kraft.rpc_client.connection import connect
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import HOST, free_ports
from kraft.testing.steady_writer import SteadyWriter
from kraft.world.ports import Tls
from kraft.world.real import RealWorld
from tests.capabilities import require_capability
from tests.docs.blocks import ROOT, find_block

TABLE: Final = "docs/operations/README.md"
MONITORING: Final = ROOT / "config" / "monitoring"
COMMAND_SECONDS_MAX: Final = 400
TOPIC: Final = "flights"


class Incident(NamedTuple):
    """A row of the table. Times are in seconds, from the moment at which the incident begins."""

    health: str
    """The code of a reason."""
    doctor: str
    """A part of a finding."""
    alert: str
    seconds: int
    """Within which health and doctor speak."""
    alert_seconds: int
    """Within which the alert fires, its `for` included."""


def incident(name: str) -> Incident:
    """The row whose first cell is `name`. Raises LookupError."""
    for line in (ROOT / TABLE).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if len(cells) == 6 and re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cells[0]) == name:
            return Incident(*cells[1:4], *(int(cell.removesuffix(" s")) for cell in cells[4:]))
    raise LookupError(f"{TABLE} has no incident {name!r}")


def hold_seconds(alert: str) -> int:
    """The `for` of an alert rule."""
    text = (MONITORING / "alerts.yml").read_text(encoding="utf-8")
    [rule] = [each for each in text.split("- alert: ") if each.splitlines()[0] == alert]
    found = re.search(r"^ +for: (\d+)m$", rule, re.MULTILINE)
    return int(found[1]) * 60 if found else 0


class DrillCluster(ThreeNodes):
    """Three nodes, each with a file of properties that a page can have edited. `common` are lines of each file."""

    def __init__(
        self, directory: Path, *common: str, tls: Tls | None = None, client: str = "", library: Path | None = None
    ) -> None:
        """`tls` are the keys of clients, `client` the same as a file for --command-config. `library` is loaded into
        each node (`jepsen.preload`)."""
        self.common = common
        self.tls = tls
        self.client = client
        self.library = library
        self.pages = {} if library is None else {node: Page(directory / f"page-{node}") for node in NODES}
        """What clocks and syncs of each node do, with a `library`."""
        super().__init__(directory, admin=True)

    def make(self, node: int, *options: str, listen: str | None, controller_listen: str | None) -> NodeProcess:
        place = self.directory / str(node)
        place.mkdir(parents=True, exist_ok=True)
        lines = (
            "process.roles=broker,controller",
            f"node.id={node}",
            f"listeners=CLIENTS://{listen},CONTROLLER://{controller_listen}",
            f"advertised.listeners=CLIENTS://{listen}",
            f"listener.security.protocol.map=CLIENTS:{'SSL' if self.tls else 'PLAINTEXT'},CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=CLIENTS",
            "controller.listener.names=CONTROLLER",
            *(line.replace("NODE", str(node)) for line in self.common),
        )
        self.properties(node).write_text("\n".join(lines) + "\n")
        common = ("--config", str(self.properties(node)), *self.quorum_options(), *options)
        return NodeProcess(
            place,
            *common,
            admin=True,
            listen=None,
            controller_listen=None,
            environment={} if self.library is None else dict(self.pages[node].environment(self.library)),
        )

    def properties(self, node: int) -> Path:
        return self.directory / str(node) / "node.properties"

    def servers(self, **options: str | int | bool) -> dict[str, str | int | bool]:
        own = {} if self.tls is None else {"security_protocol": "SSL", "ssl_ca_pem": self.tls.trusted}
        return super().servers(**own, **options)

    def ask(self, node: int, request: Any, version: int | None = None) -> Any:
        host, _, port = self.addresses[node].kafka.rpartition(":")

        async def call() -> Any:
            async with connect(RealWorld(log_sink=lambda event: None, tls=self.tls), host, int(port)) as connection:
                return await connection.call(request, version=version)

        return trio.run(call)


class Drill:
    """One incident. `machine` are the programs of a node's machine, by name: each is called with its arguments."""

    def __init__(self, cluster: DrillCluster, page: str, prometheus: str) -> None:
        self.cluster = cluster
        self.page = page
        self.machine: dict[str, Callable[[list[str]], None]] = {"systemctl": self._systemctl}
        self.machine |= dict.fromkeys(("iostat", "dmesg", "timedatectl", "chronyc"), lambda words: None)
        self.began = time.monotonic()
        self._prometheus = prometheus

    def begin(self) -> None:
        """The incident begins now."""
        self.began = time.monotonic()

    def must_speak(self, expected: Incident, address: str | None = None) -> dict[str, float]:
        """Wait until health, doctor and the alert name the incident. `address` is given to doctor instead of all.

        Returns the seconds that each took. Raises AssertionError when one is late.
        """
        took: dict[str, float] = {}
        seen: dict[str, Any] = {}

        def elapsed() -> float:
            return time.monotonic() - self.began

        def look() -> bool:
            seen["health"] = [each["code"] for each in self.document("cluster health").get("reasons", [])]
            if expected.health in seen["health"]:
                took.setdefault("health", elapsed())
            seen["doctor"] = [each["summary"] for each in self.document("doctor --timeout 2", address)["findings"]]
            if any(expected.doctor in each for each in seen["doctor"]):
                took.setdefault("doctor", elapsed())
            seen["alerts"] = self.alerts()
            if expected.alert in seen["alerts"]:
                took.setdefault("alert", elapsed() + hold_seconds(expected.alert))
            return len(took) == 3

        seconds = max(expected.seconds, expected.alert_seconds - hold_seconds(expected.alert))
        try:
            until(look, "not all speak", seconds)
        except TimeoutError as problem:
            raise AssertionError(f"{expected}: only {took} speak, seen was {seen}") from problem
        assert max(took["health"], took["doctor"]) <= expected.seconds, took
        assert took["alert"] <= expected.alert_seconds, took
        print(self.page, expected, {who: round(seconds, 1) for who, seconds in took.items()})
        return took

    def document(self, command: str, address: str | None = None) -> dict[str, Any]:
        """What `kraft COMMAND -o json` prints, whether it leaves with 0 or not; empty if it prints nothing."""
        done = self._run(f"kraft {command} -o json", {} if address is None else {"KRAFT_BOOTSTRAP_SERVER": address})
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return found

    def alerts(self) -> list[str]:
        """The alerts whose expression is true now. They fire when it stays so for `hold_seconds`."""
        try:
            answer = httpx.get(f"{self._prometheus}/api/v1/rules", timeout=30, trust_env=False)
        except httpx.TransportError:
            return []
        if answer.status_code != 200:  # It begins.
            return []
        rules = (rule for group in answer.json()["data"]["groups"] for rule in group["rules"])
        return [rule["name"] for rule in rules if rule["alerts"]]

    def follow(self, first: str, replaced: Mapping[str, str] | None = None, codes: Mapping[str, int] = {}) -> None:
        """Type the commands of the page's block that begins with `first`. `replaced` are words of the page, `codes`
        the exit codes of commands that begin so, where they are not 0."""
        text = find_block(self.page, first).text
        for word, value in (replaced or {}).items():
            assert word in text, f"{self.page} does not say {word}"
            text = text.replace(word, value)
        for line in text.splitlines():
            code = next((code for begin, code in codes.items() if line.startswith(begin)), 0)
            self.type(line, code)

    def type(self, line: str, code: int = 0) -> str:
        """Run a line of the shell as an operator does. Returns what it printed."""
        word, *rest = shlex.split(line, comments=True) or [""]
        if word in self.machine:
            self.machine[word](rest)
            return ""
        done = self._run(line)
        assert done.returncode == code, f"{line}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _run(self, line: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        own = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KRAFT_BOOTSTRAP_SERVER": self.cluster.bootstrap,
            **({"KRAFT_COMMAND_CONFIG": self.cluster.client} if self.cluster.client else {}),
            **(environment or {}),
        }
        return subprocess.run(
            ["bash", "-c", line],
            env={**os.environ, **own},
            cwd=self.cluster.directory,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )

    def _systemctl(self, words: list[str]) -> None:
        """systemd sends SIGCONT after the SIGTERM of a stop, for processes that are stopped by a signal."""
        verb, unit = words
        assert verb in ("start", "restart"), words
        if not unit.startswith("kraft@"):
            return
        node = self.cluster.nodes[int(unit.removeprefix("kraft@"))]
        if node.runs:
            node.resume()
            node.stop()
        node.start()


@contextmanager
def drill(
    directory: Path, page: str, *common: str, tls: Tls | None = None, client: str = "", preload: bool = False
) -> Iterator[tuple[Drill, SteadyWriter]]:
    """A cluster that is well, with a producer that writes all the time. When the body has ended, `kraft cluster
    health` has to say that it is well again, and all that was acknowledged has to be there. With `preload` clocks and
    syncs of the nodes can be changed."""
    require_capability("prometheus")
    if preload:
        require_capability("cc")
    cluster = DrillCluster(directory, *common, tls=tls, client=client, library=build(directory) if preload else None)
    with ExitStack() as stack:
        stack.enter_context(cluster)
        prometheus = stack.enter_context(running_prometheus(directory, cluster))
        made = Drill(cluster, page, prometheus)
        cluster.create(TOPIC)
        with SteadyWriter(cluster.bootstrap, TOPIC, **_underscored(cluster)) as writer:
            writer.more(100)
            made.type("kraft cluster health --wait 60")
            made.begin()
            yield made, writer
            made.type("kraft cluster health --wait 60")
            writer.more(100)
        assert_nothing_lost(cluster, TOPIC, writer)


def _underscored(cluster: DrillCluster) -> dict[str, str | int | bool]:
    return {} if cluster.tls is None else {"security_protocol": "SSL", "ssl_ca_pem": cluster.tls.trusted}


@contextmanager
def running_prometheus(directory: Path, cluster: DrillCluster) -> Iterator[str]:
    """The address of one that scrapes the nodes, and evaluates the alerts of config/monitoring, every second."""
    targets = [node.admin_url.partition("://")[2] for node in cluster.nodes.values()]
    scheme = cluster.nodes[1].admin_url.partition("://")[0]
    config = (MONITORING / "prometheus.yml").read_text(encoding="utf-8")
    config = config.replace('["127.0.0.1:9644"]', json.dumps(targets))
    config = config.replace("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s")
    config = config.replace("- job_name: kraft", f"- job_name: kraft\n    scheme: {scheme}")
    if scheme == "https":
        (directory / "trusted.pem").write_text(cluster.tls.trusted if cluster.tls is not None else "")
        config += f"    tls_config: {{ca_file: {directory / 'trusted.pem'}}}\n"
    place = directory / "prometheus"
    place.mkdir()
    (place / "prometheus.yml").write_text(config)
    (place / "alerts.yml").write_text((MONITORING / "alerts.yml").read_text(encoding="utf-8"))
    (port,) = free_ports(1)
    with (place / "said").open("w") as said:
        command = ["prometheus", f"--config.file={place / 'prometheus.yml'}", f"--storage.tsdb.path={place / 'data'}"]
        server = subprocess.Popen(
            [*command, f"--web.listen-address={HOST}:{port}"], stdout=subprocess.DEVNULL, stderr=said
        )
        try:
            yield f"http://{HOST}:{port}"
        finally:
            server.kill()
            server.wait()
