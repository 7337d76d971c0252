"""Each cause that keeps a client out is brought about for real, and `kraft doctor` says what mends it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from kraft.cli.admin.app import main
from kraft.testing.ports import free_ports
from tests.certificates import certificates
from tests.integration.rest_node import running_node

LISTENERS = ("PLAIN", "GOOD", "ENDED", "SOON", "ELSEWHERE", "MUTUAL", "LOGIN")
ENCRYPTED = ("GOOD", "ENDED", "SOON", "ELSEWHERE", "MUTUAL")
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Secured(NamedTuple):
    """A node with a listener for each cause."""

    ports: dict[str, int]
    admin: str
    folder: Path

    def client(self, **keys: str) -> str:
        """A file of client keys."""
        path = self.folder / "client.properties"
        path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in keys.items()))
        return str(path)

    def trusting(self) -> str:
        return self.client(security_protocol="SSL", ssl_truststore_location=str(self.folder / "ca.pem"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = certificates().write(tmp_path_factory.mktemp("secured"))
    now = datetime.now(UTC)
    keys = {
        "GOOD": (certificates().node_key, certificates().node_chain),
        "MUTUAL": (certificates().node_key, certificates().node_chain),
        "ENDED": certificates().ending(now - timedelta(hours=1)),
        "SOON": certificates().ending(now + timedelta(days=5)),
        "ELSEWHERE": certificates().elsewhere(),
    }
    settings = []
    for name, (key, chain) in keys.items():
        (folder / f"{name}.pem").write_text(key + chain)
        settings.append(f"listener.name.{name.lower()}.ssl.keystore.location={folder / name}.pem")
    ports = dict(zip((*LISTENERS, "CONTROLLER"), free_ports(len(LISTENERS) + 1), strict=True))
    protocols = {name: "SSL" if name in ENCRYPTED else "PLAINTEXT" for name in ports} | {"LOGIN": "SASL_PLAINTEXT"}
    settings += [
        "listeners=" + ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map=" + ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "inter.broker.listener.name=PLAIN",
        "controller.listener.names=CONTROLLER",
        f"controller.quorum.voters=1@127.0.0.1:{ports['CONTROLLER']}",
        "listener.name.mutual.ssl.client.auth=required",
        f"listener.name.mutual.ssl.truststore.location={folder / 'ca.pem'}",
        "sasl.enabled.mechanisms=PLAIN",
        f'listener.name.login.plain.sasl.jaas.config={JAAS} user_alice="secret";',
    ]
    (folder / "node.properties").write_text("\n".join(settings))
    with running_node(folder, "--config", str(folder / "node.properties"), own_listeners=True) as node:
        yield Secured(ports, node.admin, folder)


@contextmanager
def taken_and_deaf() -> Iterator[int]:
    """A port on which nobody listens, or can begin to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def examined(
    capsys: pytest.CaptureFixture[str], bootstrap: str, config: str | None = None
) -> list[tuple[str, str, str, str]]:
    """Check, result, finding and remedy of each."""
    capsys.readouterr()
    options = [] if config is None else ["--command-config", config]
    code = main(["doctor", "-b", bootstrap, "-o", "json", "--timeout", "2", *options])
    document = json.loads(capsys.readouterr().out)
    assert document["is_well"] == (code == 0)
    return [(each["check"], each["result"], each["summary"], each["remedy"]) for each in document["findings"]]


@pytest.mark.parametrize(
    ("listener", "remedy"),
    [
        ("ENDED", "certificate that this node shows has ended: replace the files"),
        ("ELSEWHERE", "the node's certificate names other hosts"),
        ("MUTUAL", "ssl.keystore.location"),
        ("PLAIN", "the listener may not use TLS"),
    ],
)
def test_doctor_distinguishes_the_errors_of_a_tls_listener(
    secured: Secured, capsys: pytest.CaptureFixture[str], listener: str, remedy: str
) -> None:
    [found] = examined(capsys, f"127.0.0.1:{secured.ports[listener]}", secured.trusting())
    assert found[:2] == ("bootstrap address", "fault")
    assert remedy in found[3], found


def test_doctor_reports_an_untrusted_authority(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    (secured.folder / "stranger.pem").write_text(certificates().stranger)
    config = secured.client(security_protocol="SSL", ssl_truststore_location=str(secured.folder / "stranger.pem"))
    [found] = examined(capsys, f"127.0.0.1:{secured.ports['GOOD']}", config)
    assert "ssl.truststore.location has to name the authority" in found[3], found


def test_doctor_reports_plaintext_to_a_tls_listener(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    [found] = examined(capsys, f"127.0.0.1:{secured.ports['GOOD']}")
    assert "security.protocol=SSL or SASL_SSL" in found[3], found


def test_doctor_and_every_command_report_a_wrong_password(secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap = f"127.0.0.1:{secured.ports['LOGIN']}"
    login = f'{JAAS} username="alice" password="wrong";'
    config = secured.client(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=login)
    [found] = examined(capsys, bootstrap, config)
    assert "user, password or mechanism in --command-config is wrong" in found[3], found
    assert main(["topics", "list", "-b", bootstrap, "--command-config", config]) == 1
    said = capsys.readouterr().err
    assert "user, password or mechanism in --command-config is wrong" in said
    assert "is a node running there" not in said


def test_doctor_distinguishes_a_refused_a_silent_and_an_unknown_address(capsys: pytest.CaptureFixture[str]) -> None:
    with taken_and_deaf() as nowhere, silent() as mute:
        [found] = examined(capsys, f"127.0.0.1:{nowhere}")
        assert "no node listens there: is it running" in found[3], found
        [found] = examined(capsys, f"127.0.0.1:{mute}")
        assert "a firewall drops packets, the node is frozen" in found[3], found
    [found] = examined(capsys, "no-such-host.invalid:9092")
    assert "the name does not resolve on this machine" in found[3], found
    assert main(["topics", "list", "-b", "no-such-host.invalid:9092"]) == 1
    assert "the name does not resolve on this machine" in capsys.readouterr().err


def test_doctor_reports_an_unreachable_advertised_address_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with taken_and_deaf() as nowhere:
        told = f"advertised.listeners=PLAINTEXT://127.0.0.1:{nowhere}"
        with running_node(tmp_path, "--set", told) as node:
            found = [each for each in examined(capsys, node.kafka) if each[0] == "address of broker 1"]
            assert [each[1] for each in found] == ["fault"]
            assert "is broker 1 running? If it is, set its advertised.listeners" in found[0][3]
            both = examined(capsys, f"{node.kafka},127.0.0.1:{nowhere}")
            assert [each[0] for each in both if str(nowhere) in each[2]] == ["bootstrap address"], "and not once more"


def test_the_doctor_names_certificates_that_have_expired_or_expire_soon(
    secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = httpx.get(f"{secured.admin}/v1/cluster/health", timeout=30).json()["reasons"]
    found = {each["code"]: each["summary"] for each in reasons}
    assert "certificate of listener ENDED on node 1 ended at" in found["certificate_ended"]
    assert "certificate of listener SOON on node 1 ends in 5 d," in found["certificate_ends"]
    health = [each for each in examined(capsys, f"127.0.0.1:{secured.ports['PLAIN']}") if each[0] == "health"]
    assert any("listener ENDED" in each[2] and "Replace the files" in each[3] for each in health)
    log = (secured.folder / "node.log").read_text()
    assert "a certificate has expired" in log
    assert "a certificate expires soon" in log
