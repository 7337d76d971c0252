"""Delegation tokens on three nodes: made by `kraft` and by Kafka's tool, used by Kafka's clients and ours, on every
node, and over when they are over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java.kafka import tool
from kraft.cli.admin.app import main
from kraft.testing.process_cluster import ProcessCluster
from tests.capabilities import require_capability
from tests.integration.acl_clients import until

SECONDS_MAX = 60
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
NODE = f"""\
listeners=CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={PLAIN} required username="node" password="p" \\
  user_node="p" user_alice="p" user_bob="p" user_eve="p";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node;User:ANONYMOUS
delegation.token.secret.key=the secret of all nodes
delegation.token.expiry.check.interval.ms=500
"""


class Cluster(NamedTuple):
    nodes: ProcessCluster
    directory: Path

    def config(self, name: str, login: str, mechanism: str) -> str:
        path = self.directory / f"{name}.properties"
        path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={login}\n")
        return str(path)

    def user(self, name: str) -> str:
        return self.config(name, f'{PLAIN} required username="{name}" password="p";', "PLAIN")

    def token(self, token_id: str, hmac: str, mechanism: str = "SCRAM-SHA-256") -> str:
        login = f'{SCRAM} required username="{token_id}" password="{hmac}" tokenauth="true";'
        return self.config(f"token-{token_id}", login, mechanism)

    def kraft(self, *arguments: str, by: str, node: int | None = None) -> int:
        address = self.nodes.bootstrap if node is None else self.nodes.nodes[node].ready["kafka"]
        return main([*arguments, "--bootstrap-server", address, "--command-config", by, "--timeout", "20"])

    def java(self, name: str, *arguments: str, by: str, check: bool = True) -> str:
        done = tool(name, "--bootstrap-server", self.nodes.bootstrap, "--command-config", by, *arguments, check=check)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("tokens")
    (directory / "node.properties").write_text(NODE)
    with ProcessCluster(directory / "nodes", "--config", str(directory / "node.properties")) as nodes:
        admin = AdminClient(
            {
                "bootstrap.servers": nodes.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "node",
                "sasl.password": "p",
            }
        )
        for future in admin.create_topics([NewTopic("orders", 1, 3)]).values():
            future.result(SECONDS_MAX)
        found = Cluster(nodes, directory)
        arguments = ("acls", "add", "--allow-principal", "User:alice", "--operation", "describe", "--topic", "orders")
        assert found.kraft(*arguments, by=found.user("node")) == 0
        yield found


def made(cluster: Cluster, capsys: pytest.CaptureFixture[str], *arguments: str, by: str = "alice") -> dict[str, Any]:
    capsys.readouterr()
    assert cluster.kraft("tokens", "create", *arguments, "-o", "json", by=cluster.user(by)) == 0
    token: dict[str, Any] = json.loads(capsys.readouterr().out)
    return token


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_gives_the_permissions_of_its_owner_at_every_node(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], mechanism: str
) -> None:
    token = made(cluster, capsys, "--renewer", "User:bob")
    by = cluster.token(token["token_id"], token["hmac"], mechanism)
    for node in cluster.nodes.nodes:
        capsys.readouterr()
        until(lambda at=node: cluster.kraft("topics", "list", "-o", "json", by=by, node=at) == 0)
        assert "orders" in capsys.readouterr().out
    wrong = cluster.config(
        "wrong", Path(by).read_text().rpartition("config=")[2].replace(token["hmac"], "AAAA"), mechanism
    )
    assert cluster.kraft("topics", "list", by=wrong) != 0
    assert "invalid credentials" in capsys.readouterr().err


def test_a_client_logged_in_by_token_can_neither_create_nor_renew_tokens(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    token = made(cluster, capsys)
    by = cluster.token(token["token_id"], token["hmac"])
    for node in cluster.nodes.nodes:  # Handed on to the active controller, or not.
        until(lambda at=node: cluster.kraft("topics", "list", by=by, node=at) == 0)
        for arguments in (("create",), ("renew", token["hmac"]), ("expire", token["hmac"]), ("list",)):
            capsys.readouterr()
            assert cluster.kraft("tokens", *arguments, by=by, node=node) != 0
            assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in capsys.readouterr().err


def test_access_to_other_users_tokens_needs_an_acl(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    token = made(cluster, capsys, "--renewer", "User:bob")
    assert cluster.kraft("tokens", "create", "--owner", "User:alice", by=cluster.user("eve")) != 0
    assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in capsys.readouterr().err
    assert cluster.kraft("tokens", "renew", token["hmac"], by=cluster.user("eve")) != 0
    assert "DELEGATION_TOKEN_OWNER_MISMATCH" in capsys.readouterr().err
    seen = {}
    for name in ("alice", "bob", "eve"):
        capsys.readouterr()
        assert cluster.kraft("tokens", "list", "-o", "json", by=cluster.user(name)) == 0
        seen[name] = [each["token_id"] for each in json.loads(capsys.readouterr().out)["tokens"]]
    assert token["token_id"] in seen["alice"]
    assert token["token_id"] in seen["bob"]
    assert seen["eve"] == []


def test_the_kraft_cli_grants_permissions_on_tokens_of_other_users(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    admin, eve = cluster.user("node"), cluster.user("eve")
    allow = ("--allow-principal", "User:eve")
    on_user = (*allow, "--operation", "CreateTokens", "--user-principal", "User:alice")
    assert cluster.kraft("acls", "add", *on_user, by=admin) == 0
    until(lambda: cluster.kraft("tokens", "create", "--owner", "User:alice", by=eve) == 0)
    token = made(cluster, capsys)
    on_token = (*allow, "--operation", "Describe", "--delegation-token", token["token_id"])
    assert cluster.kraft("acls", "add", *on_token, by=admin) == 0

    def seen() -> str:
        capsys.readouterr()
        assert cluster.kraft("tokens", "list", by=eve) == 0
        return capsys.readouterr().out

    until(lambda: token["token_id"] in seen())
    assert cluster.kraft("acls", "list", "--delegation-token", token["token_id"], by=admin) == 0
    assert "User:eve" in capsys.readouterr().out
    assert cluster.kraft("acls", "remove", "--user-principal", "User:alice", "--yes", by=admin) == 0
    assert cluster.kraft("acls", "add", *allow, "--user-principal", "alice", by=admin) == 2
    assert "write User:alice" in capsys.readouterr().err


def test_an_expired_token_is_refused(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    token = made(cluster, capsys)
    by = cluster.token(token["token_id"], token["hmac"])
    for node in cluster.nodes.nodes:
        until(lambda at=node: cluster.kraft("topics", "list", by=by, node=at) == 0)
    assert cluster.kraft("tokens", "expire", token["hmac"], by=cluster.user("alice")) == 0
    for node in cluster.nodes.nodes:
        until(lambda at=node: cluster.kraft("topics", "list", by=by, node=at) != 0)
    assert "invalid credentials" in capsys.readouterr().err


@pytest.mark.java
def test_kafkas_tool_creates_a_token_and_kafkas_client_logs_in_with_it(cluster: Cluster) -> None:
    require_capability("java17")
    require_capability("mvn")
    alice = cluster.user("alice")
    create = ("--create", "--max-life-time-period", "3600000", "--renewer-principal", "User:bob")
    text = cluster.java("delegation-tokens", *create, by=alice)
    row = re.search(r"^(\S{22})\s+(\S+==)\s+User:alice\s+User:alice\s+\[User:bob\]", text, re.MULTILINE)
    assert row is not None, text
    by = cluster.token(row[1], row[2], "SCRAM-SHA-512")
    assert "orders" in cluster.java("topics", "--list", by=by)
    period = ("--renew-time-period", "60000")
    assert "Completed renew" in cluster.java(
        "delegation-tokens", "--renew", *period, "--hmac", row[2], by=cluster.user("bob")
    )
    describe = ("delegation-tokens", "--describe", "--owner-principal", "User:alice")
    assert row[1] in cluster.java(*describe, by=alice)
    now = ("--expiry-time-period", "-1")
    assert "Completed expire" in cluster.java("delegation-tokens", "--expire", *now, "--hmac", row[2], by=alice)
    assert row[1] not in cluster.java(*describe, by=alice)
