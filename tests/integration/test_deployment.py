"""config/deployment: judged by the tools that know each format, and what the files start is started: three nodes by
the settings of the compose file and of the Kubernetes manifest, one as systemd would."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import httpx
import kubernetes_validate
import pytest
import trustme
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.three_nodes import until
from tests import rendered_chart
from tests.capabilities import require_capability

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "config" / "deployment"
PROGRAMS: Final = Path(sys.executable).parent
WAIT_SECONDS_MAX: Final = 60
PORTS: Final = ("9092", "9093", "9094", "9644")


def free_ports() -> dict[str, str]:
    """A free port for each that the files name."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
        return {port: str(each.getsockname()[1]) for port, each in zip(PORTS, taken, strict=True)}


class Machines:
    """Containers as processes: each has an address of this machine's own, 127.0.0.X, for its name and for "any"."""

    def __init__(self, names: tuple[str, ...], folder: Path) -> None:
        self.names, self.folder, self.ports = names, folder, free_ports()
        self.addresses = {name: f"127.0.0.{10 + number}" for number, name in enumerate(names, 1)}
        self.opened = contextlib.ExitStack()
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def translated(self, text: str, name: str) -> str:
        for other, address in self.addresses.items():
            text = text.replace(f"//{other}:", f"//{address}:").replace(f"@{other}:", f"@{address}:")
        text = text.replace("://:", f"://{self.addresses[name]}:").replace("0.0.0.0:", f"{self.addresses[name]}:")
        text = text.replace("/var/lib/kraft", str(self.folder / name))
        for port, free in self.ports.items():
            text = text.replace(f":{port}", f":{free}")
        return text

    def start(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        (self.folder / name).mkdir(exist_ok=True)
        log = self.opened.enter_context((self.folder / f"{name}.log").open("a"))
        own = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        self.processes[name] = subprocess.Popen(
            [self.translated(word, name) for word in command],
            cwd=self.folder / name,
            env={**own, **{key: self.translated(value, name) for key, value in environment.items()}},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait(WAIT_SECONDS_MAX)
        assert process.stdout is not None
        process.stdout.close()

    def probe(self, name: str, path: str, trusted: ssl.SSLContext | None = None) -> int:
        """The status of a request to the node's HTTP admin; 0 while nobody listens."""
        scheme, address = "http" if trusted is None else "https", f"{self.addresses[name]}:{self.ports['9644']}"
        try:
            return httpx.get(f"{scheme}://{address}{path}", timeout=10, verify=trusted or True).status_code
        except httpx.TransportError:
            return 0

    def check_serving(self, port: str, security: Mapping[str, str] = MappingProxyType({})) -> None:
        """All are ready; a topic of three replicas takes a record with acks=all. `security` has keys of librdkafka."""
        for name, process in self.processes.items():
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready "), (self.folder / f"{name}.log").read_text()
        bootstrap = ",".join(f"{address}:{self.ports[port]}" for address in self.addresses.values())
        admin = AdminClient({"bootstrap.servers": bootstrap, **security})
        admin.create_topics([NewTopic("deployed", 3)])["deployed"].result(30)
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **security})
        producer.produce("deployed", b"x")
        assert producer.flush(30) == 0
        found = admin.list_topics("deployed", timeout=30).topics["deployed"]
        assert [len(each.replicas) for each in found.partitions.values()] == [3, 3, 3]


@contextlib.contextmanager
def machines(folder: Path, *names: str) -> Iterator[Machines]:
    started = Machines(names, folder)
    try:
        yield started
    finally:
        for name in list(started.processes):
            started.kill(name)
        started.opened.close()


def test_hadolint_finds_no_fault_in_the_container_file() -> None:
    done = subprocess.run(
        [str(PROGRAMS / "hadolint"), str(FOLDER / "Containerfile")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_build_context_contains_what_the_container_file_copies() -> None:
    copied = [
        word
        for line in (FOLDER / "Containerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)


def test_the_compose_services_form_a_cluster(tmp_path: Path) -> None:
    document: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yml").read_text())
    command = ["kraft-node", "--format"]
    assert (FOLDER / "Containerfile").read_text().endswith('ENTRYPOINT ["kraft-node"]\nCMD ["--format"]\n')
    with machines(tmp_path, *document["services"]) as cluster:
        for name, service in document["services"].items():
            assert service["hostname"] == name
            assert [volume.partition(":")[0] for volume in service["volumes"]] == [name]
            assert name in document["volumes"]
            environment = {key: str(value) for key, value in service["environment"].items()}
            advertised = environment["KAFKA_ADVERTISED_LISTENERS"].rpartition("//")[2]
            assert f"{advertised}:9094" in service["ports"]
            environment["KAFKA_ADVERTISED_LISTENERS"] = environment["KAFKA_ADVERTISED_LISTENERS"].replace(
                advertised, f"{cluster.addresses[name]}:9094"
            )
            cluster.start(name, command, environment)
        cluster.check_serving("9094")


def manifest() -> dict[str, dict[str, Any]]:
    """The documents by kind; of the two services the headless one."""
    documents = list(yaml.safe_load_all((FOLDER / "kubernetes.yml").read_text()))
    return {document["kind"]: document for document in reversed(documents)}


def probes(nodes: Mapping[str, Any]) -> list[str]:
    """The paths of the startup, readiness and liveness probes."""
    [container] = nodes["spec"]["template"]["spec"]["containers"]
    return [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")]


def run_pods(
    cluster: Machines, nodes: Mapping[str, Any], mounted: Mapping[str, str]
) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Start the pods of a StatefulSet as processes. Returns the command and environment of each. `mounted` has
    directories of the pods and where they are here."""
    [container] = nodes["spec"]["template"]["spec"]["containers"]
    [script] = container["args"]
    service = nodes["spec"]["serviceName"]
    assert script.count(f"${{POD_NAME}}.{service}:") == 1
    started = {}
    for name in cluster.names:
        environment = {each["name"]: each.get("value", name.partition(".")[0]) for each in container["env"]}
        for path, here in mounted.items():
            environment = {key: value.replace(path, here) for key, value in environment.items()}
        own = script.replace(f"${{POD_NAME}}.{service}:", f"{cluster.addresses[name]}:")
        started[name] = [*container["command"], own], environment
        cluster.start(name, *started[name])
    return started


def test_kubernetes_accepts_the_manifest() -> None:
    documents = list(yaml.safe_load_all((FOLDER / "kubernetes.yml").read_text()))
    assert [document["kind"] for document in documents] == ["PodDisruptionBudget", "Service", "Service", "StatefulSet"]
    for document in documents:
        kubernetes_validate.validate(document, "1.30", strict=True)


@pytest.mark.parametrize("file", rendered_chart.FILES)
def test_the_rendered_chart_is_of_the_present_chart(file: Path) -> None:
    assert rendered_chart.digest() in file.read_text(), "helm has to render it again: make chart"


def test_the_pods_of_a_release_with_tls_form_a_cluster_and_pass_their_probes(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(rendered_chart.TLS.read_text()))
    for document in documents:
        kubernetes_validate.validate(document, "1.30", strict=True)
    pods = [f"kraft-{ordinal}.kraft-nodes" for ordinal in range(3)]
    with machines(tmp_path, *pods) as cluster:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(tmp_path / "truststore.pem")
        authority.issue_cert(*cluster.addresses.values()).private_key_and_cert_chain_pem.write_to_path(
            tmp_path / "keystore.pem"
        )
        run_pods(cluster, documents[-1], {"/etc/kraft/tls": str(tmp_path)})
        cluster.check_serving("9092", {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "truststore.pem")})
        context = ssl.create_default_context(cafile=str(tmp_path / "truststore.pem"))
        for name in cluster.names:
            for path in probes(documents[-1]):
                until(
                    lambda name=name, path=path: cluster.probe(name, path, context) == 200,
                    f"{name} does not answer {path}",
                )


def test_the_pods_of_the_manifest_form_a_cluster_and_pass_their_probes(tmp_path: Path) -> None:
    found = manifest()
    nodes, service = found["StatefulSet"], found["Service"]["metadata"]["name"]
    assert service == nodes["spec"]["serviceName"]
    pods = [f"kraft-{ordinal}.{service}" for ordinal in range(nodes["spec"]["replicas"])]
    with machines(tmp_path, *pods) as cluster:
        started = run_pods(cluster, nodes, {})
        cluster.check_serving("9092")
        for name in cluster.names:
            for path in probes(nodes):
                until(lambda name=name, path=path: cluster.probe(name, path) == 200, f"{name} does not answer {path}")
        *others, lost = cluster.names
        for name in cluster.names:
            cluster.kill(name)
        for name in others:
            cluster.start(name, *started[name])
        for name in others:
            until(
                lambda name=name: cluster.probe(name, probes(nodes)[0]) == 200, f"{name} does not start without {lost}"
            )


def test_systemd_accepts_the_unit_and_rates_its_sandboxing_well(tmp_path: Path) -> None:
    require_capability("systemd-analyze")
    text = (FOLDER / "kraft.service").read_text()
    unit = tmp_path / "kraft.service"
    unit.write_text(text.replace("/opt/kraft/bin/kraft-node", str(PROGRAMS / "kraft-node")))
    for command in (("verify",), ("security", "--offline=true", "--threshold=20")):
        done = subprocess.run(
            ["systemd-analyze", *command, str(unit)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_service_notifies_systemd_of_ready_watchdog_and_stopping(tmp_path: Path) -> None:
    """With the command of the unit, towards a socket as systemd's."""
    [line] = [line for line in (FOLDER / "kraft.service").read_text().splitlines() if line.startswith("ExecStart=")]
    program, *arguments = shlex.split(line.removeprefix("ExecStart="))
    settings = tmp_path / "kraft.properties"
    settings.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\nlog.dirs={tmp_path / 'data'}\n"
        "controller.listener.names=CONTROLLER\nkraft.admin.listener=127.0.0.1:0\n"
    )
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(WAIT_SECONDS_MAX)
        process = subprocess.Popen(
            [
                str(PROGRAMS / Path(program).name),
                *(str(settings) if word == "/etc/kraft/kraft.properties" else word for word in arguments),
            ],
            env={**os.environ, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            said = [manager.recv(4096).decode()]
            while not said[-1].startswith("READY=1"):
                said.append(manager.recv(4096).decode())
            assert "WATCHDOG=1" in said
            assert said[-1].startswith("READY=1\nSTATUS=ready node=1 roles=broker,controller kafka=127.0.0.1:")
            assert manager.recv(4096) == b"WATCHDOG=1"
            process.send_signal(signal.SIGTERM)
            while (word := manager.recv(4096)) == b"WATCHDOG=1":
                pass
            assert word.startswith(b"STOPPING=1\n")
            assert process.wait(WAIT_SECONDS_MAX) == 0
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("watchdog", ["", "0", "soon"])
def test_without_a_watchdog_no_keepalive_is_sent(watchdog: str, tmp_path: Path) -> None:
    from kraft.cli.service_manager import service_manager

    environment = {"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": watchdog, "HOME": "/"}
    told: list[Any] = []
    manager = service_manager(environment, told.append)
    assert environment == {"HOME": "/"}
    manager.serving("x")
    manager.stopping()
    assert [line["event"] for line in told] == ["service_manager_unreachable"]
