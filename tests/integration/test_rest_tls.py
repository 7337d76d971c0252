"""A node whose HTTP admin speaks HTTPS: clients, links, the stream of events, and certificates that change."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from kraft.cli.admin.app import main
from kraft.testing.node_process import NodeProcess
from kraft.world.ports import Tls
from kraft.world.real.tls import client_context
from tests.certificates import certificates

SECONDS_MAX = 60


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = certificates().write(tmp_path_factory.mktemp("rest-tls"))
    sets = (
        f"kraft.admin.ssl.keystore.location={directory}/node.pem",
        f"kraft.admin.ssl.truststore.location={directory}/ca.pem",
        "kraft.admin.ssl.client.auth=requested",
    )
    options = [option for each in sets for option in ("--set", each)]
    with NodeProcess(directory / "node", *options, admin=True).start() as started:
        yield started


def client(node: NodeProcess, tls: Tls | None = None) -> httpx.Client:
    context = client_context(certificates().anybody if tls is None else tls)
    return httpx.Client(base_url=node.admin_url, verify=context, timeout=SECONDS_MAX, trust_env=False)


def test_the_node_announces_https_and_its_links_use_it(node: NodeProcess) -> None:
    assert node.admin_url.startswith("https://127.0.0.1:")
    with client(node) as asking:
        [cluster] = asking.get("/v3/clusters").json()["data"]
        link = cluster["metadata"]["self"]
        assert link.startswith(node.admin_url)
        created = asking.post(f"{link}/topics", json={"topic_name": "orders"})
        assert created.status_code == 201
        assert created.json()["metadata"]["self"] == f"{link}/topics/orders"
        assert asking.get("/").status_code == 200
        assert asking.get("/openapi.json").status_code == 200


def test_events_are_streamed_over_https(node: NodeProcess) -> None:
    with client(node) as asking, asking.stream("GET", "/v1/events", headers={"Accept": "text/event-stream"}) as stream:
        assert next(stream.iter_lines()) == "retry: 1000"


def test_commands_trust_the_ca_of_their_configuration_file(
    node: NodeProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["events", "--admin", node.admin_url, "--output", "json"]
    assert main(ask) != 0
    assert "certificate verify failed" in capsys.readouterr().err
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\nssl.truststore.location={certificates().write(tmp_path)}/ca.pem\n")
    assert main([*ask, "--command-config", str(file)]) == 0


def test_a_client_that_trusts_another_authority_cannot_connect(node: NodeProcess) -> None:
    with client(node, Tls(trusted=certificates().stranger)) as asking, pytest.raises(httpx.ConnectError):
        asking.get("/livez")


def test_plain_http_is_refused(node: NodeProcess) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{node.admin_url.replace('https', 'http')}/livez", trust_env=False)
    with client(node) as asking:
        told = [event["fields"] for event in asking.get("/v1/events").json()["data"] if event["kind"] == "login.failed"]
    failed = [each for each in told if "HTTP_REQUEST" in each["reason"]]
    assert [(each["listener"], each["mechanism"], each["failure"]) for each in failed] == [("HTTP_ADMIN", "TLS", "tls")]


def test_renewed_certificates_are_used_for_the_next_connection(node: NodeProcess) -> None:
    key, chain = certificates().renewed()
    stored = node.directory.parent / "node.pem"
    (stored.parent / "new.pem").write_text(key + chain)
    os.replace(stored.parent / "new.pem", stored)
    deadline = time.monotonic() + SECONDS_MAX
    while shown(node) != ssl.PEM_cert_to_DER_cert(chain):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_health_doctor_and_metrics_report_when_the_certificate_expires(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = certificates().write(tmp_path)
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=5)
    (directory / "soon.pem").write_text("".join(certificates().ending(end)))
    keystore = f"kraft.admin.ssl.keystore.location={directory}/soon.pem"
    with NodeProcess(directory / "node", "--set", keystore, admin=True).start() as node:
        assert main(["cluster", "health", "-b", node.bootstrap]) == 1
        assert "The certificate of the HTTP admin on node 1 ends in 5 d," in capsys.readouterr().out
        assert main(["doctor", "-b", node.bootstrap]) == 1
        assert "Replace the files that kraft.admin.ssl.keystore.location names" in capsys.readouterr().out
        with client(node) as asking:
            series = f'tls_certificate_expiry_timestamp_seconds{{listener="HTTP_ADMIN"}} {int(end.timestamp())}'
            assert series in asking.get("/metrics").text.splitlines()


def shown(node: NodeProcess) -> bytes:
    with client(node) as asking, asking.stream("GET", "/livez") as response:
        tls = response.extensions["network_stream"].get_extra_info("ssl_object")
        certificate: bytes = tls.getpeercert(True)
        return certificate


def test_a_certificate_names_the_principal_and_a_client_without_one_is_denied_everywhere(tmp_path: Path) -> None:
    directory = certificates().write(tmp_path)
    sets = (
        f"kraft.admin.ssl.keystore.location={directory}/node.pem",
        f"kraft.admin.ssl.truststore.location={directory}/ca.pem",
        "kraft.admin.ssl.client.auth=requested",
        "kraft.admin.ssl.principal.mapping.rules=RULE:^.*O=([^,]+).*$/$1/L",
        "kraft.admin.authentication=mtls",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
    )
    options = [option for each in sets for option in ("--set", each)]
    with NodeProcess(directory / "node", *options, admin=True).start() as node:
        with client(node, certificates().client) as asking:
            refused = asking.get("/v1/events")
            assert (refused.status_code, asking.get("/v1/node").status_code) == (403, 200)
            assert refused.json()["detail"].startswith("User:trustme ")
        with client(node) as asking:
            refused = asking.get("/v1/node")
            assert (refused.status_code, "www-authenticate" in refused.headers) == (403, False)
            assert "Present a certificate" in refused.json()["detail"]
            assert asking.get("/livez").status_code == 200
