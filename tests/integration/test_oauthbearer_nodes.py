"""Three nodes that log in at one another, and commands that log in at them, by tokens of an authority (OAUTHBEARER)
over SASL_SSL; keys and tokens come over HTTPS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from jepsen.java.kafka import tool
from kraft.cli.admin.app import main
from kraft.testing.node_process import NodeFailed, NodeProcess
from kraft.testing.process_cluster import ProcessCluster
from tests.capabilities import require_capability
from tests.certificates import certificates
from tests.token_service import TokenService, token_service
from tests.tokens import stranger

SECONDS_MAX = 60
SECURITY = "org.apache.kafka.common.security.oauthbearer"
LOGIN = f"{SECURITY}.OAuthBearerLoginCallbackHandler"
LIFETIME = 8.0
UNAVAILABLE = "the authority answers with the status 503 (temporarily_unavailable)"


def node_settings(directory: Path, url: str) -> dict[str, str]:
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"{url}/keys",
        "sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
        "sasl.oauthbearer.scope": "nodes",
        "sasl.login.callback.handler.class": LOGIN,
        "ssl.keystore.location": f"{directory}/node.pem",
        "ssl.truststore.location": f"{directory}/ca.pem",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node;User:admin",
        "offsets.topic.num.partitions": "3",
        "kraft.admin.authentication": "basic",
    }
    for listener in ("clients", "controller"):
        settings |= {
            f"listener.name.{listener}.oauthbearer.sasl.server.callback.handler.class": f"{SECURITY}."
            "OAuthBearerValidatorCallbackHandler",
            f"listener.name.{listener}.oauthbearer.sasl.jaas.config": f"{SECURITY}.OAuthBearerLoginModule required "
            'clientId="node" clientSecret="node-secret";',
        }
    return settings


class Guarded:
    def __init__(self, directory: Path, service: TokenService) -> None:
        self.directory, self.service = directory, service
        self.write("node.properties", node_settings(directory, service.url))
        config = ("--config", str(directory / "node.properties"))
        self.cluster = ProcessCluster(directory / "nodes", *config, admin=True)
        self.file = self.write("client.properties", self.client_settings())

    def client_settings(self, secret: str = "admin-secret", **changes: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": LOGIN,
            "sasl.oauthbearer.token.endpoint.url": f"{self.service.url}/token",
            "sasl.oauthbearer.client.credentials.client.id": "admin",
            "sasl.oauthbearer.client.credentials.client.secret": secret,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{self.directory}/ca.pem",
            **changes,
        }

    def write(self, name: str, settings: dict[str, str]) -> Path:
        path = self.directory / name
        path.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
        return path

    def kraft(self, *arguments: str, file: Path | None = None) -> int:
        common = ("--bootstrap-server", self.bootstrap, "--command-config", str(file or self.file))
        return main([*arguments, *common])

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def logs(self) -> str:
        return "".join(node.log_path.read_text() for node in self.cluster.nodes.values())


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = certificates().write(tmp_path_factory.mktemp("tokens"))
    with token_service(directory / "node.pem") as service:
        service.lifetime = LIFETIME
        made = Guarded(directory, service)
        with made.cluster:
            yield made


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def producer(guarded: Guarded, failures: list[Any]) -> Producer:
    service = guarded.service
    settings = {
        "bootstrap.servers": guarded.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": f"{guarded.directory}/ca.pem",
        "oauth_cb": lambda _: (service.token("admin"), time.time() + service.lifetime),
        "acks": "all",
    }
    return Producer({**settings, "error_cb": failures.append})


def test_nodes_keep_serving_while_tokens_expire_and_the_authority_is_down_for_a_while(guarded: Guarded) -> None:
    assert guarded.kraft("topics", "create", "orders", "--partitions", "3", "--replication-factor", "3") == 0
    failures: list[Any] = []
    writer = producer(guarded, [])
    given = len(guarded.service.asked)
    deadline = time.monotonic() + 2.5 * LIFETIME
    while time.monotonic() < deadline:
        is_away = time.monotonic() > deadline - 1.5 * LIFETIME and UNAVAILABLE not in guarded.logs()
        guarded.service.status = 503 if is_away else 200
        writer.produce("orders", b"x", callback=lambda problem, _: problem and failures.append(problem))
        assert writer.flush(SECONDS_MAX) == 0
        time.sleep(0.2)
    guarded.service.status = 200
    assert failures == []
    assert len(guarded.service.asked) >= given + 6, "three nodes have had two more tokens each"
    assert ("node", "nodes") in guarded.service.asked
    assert guarded.kraft("cluster", "health", "--wait", "30") == 0
    assert UNAVAILABLE in guarded.logs()


def test_no_secret_appears_in_logs(guarded: Guarded) -> None:
    logs = guarded.logs()
    assert "subject=node" in logs
    assert "node-secret" not in logs
    assert "eyJ" not in logs, "so begins every token"


def test_commands_log_in_with_a_token(guarded: Guarded, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded.kraft("topics", "list") == 0
    wrong = guarded.write("wrong.properties", guarded.client_settings(secret="guess"))
    assert guarded.kraft("topics", "list", "--timeout", "5", file=wrong) != 0
    told = capsys.readouterr().err
    assert "the login as admin failed: no token can be had from https://localhost" in told
    assert "the authority answers with the status 401 (invalid_client)" in told
    assert "guess" not in told


def test_commands_send_their_token_to_the_http_admin(guarded: Guarded) -> None:
    admin = guarded.cluster.nodes[1].admin_url
    assert main(["events", "--admin", admin, "--command-config", str(guarded.file)]) == 0
    assert main(["events", "--admin", admin]) != 0


def test_commands_log_in_with_a_token_from_a_file(guarded: Guarded, capsys: pytest.CaptureFixture[str]) -> None:
    path = guarded.directory / "token"
    settings = guarded.client_settings(**{"sasl.oauthbearer.token.endpoint.url": f"file://{path}"})
    file = guarded.write("by-file.properties", settings)
    path.write_text(guarded.service.token("admin") + "\n")
    assert guarded.kraft("topics", "list", file=file) == 0
    path.write_text("nonsense")
    assert guarded.kraft("topics", "list", "--timeout", "5", file=file) != 0
    assert "is not a JSON Web Token" in capsys.readouterr().err
    now = time.time()
    path.write_text(stranger().sign(now, sub="admin", iss="https://issuer", aud="kafka"))
    assert guarded.kraft("topics", "list", "--timeout", "5", file=file) != 0
    assert 'the login as admin failed: {"status":"invalid_token"}' in capsys.readouterr().err


def test_a_node_that_is_not_among_its_super_users_does_not_start(guarded: Guarded, tmp_path: Path) -> None:
    settings = node_settings(guarded.directory, guarded.service.url) | {"super.users": "User:admin"}
    config = guarded.write("stranger.properties", settings)
    voters = "9@127.0.0.1:1,10@127.0.0.1:2,11@127.0.0.1:3"
    with pytest.raises(NodeFailed, match=r"super\.users must name User:node on every controller"):
        NodeProcess(tmp_path, "--config", str(config), "--node-id", "9", "--voters", voters).start()


@pytest.mark.java
def test_apache_kafkas_tool_logs_in_with_the_same_file(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    require_capability("java17")
    require_capability("mvn")
    url = f"{guarded.service.url}/token"
    pem = f'ssl.truststore.type="PEM" ssl.truststore.location="{guarded.directory}/ca.pem"'
    jaas = f"{SECURITY}.OAuthBearerLoginModule required {pem};"
    file = guarded.write("java.properties", guarded.client_settings(**{"sasl.jaas.config": jaas}))
    assert guarded.kraft("topics", "create", "by-tokens", file=file) == 0
    arguments = ["--bootstrap-server", guarded.bootstrap, "--command-config", str(file), "--list"]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}")
    assert "by-tokens" in tool("topics", *arguments).stdout
