"""Three nodes whose HTTP admins ask for passwords: each request is its caller's own, on every node, and ends with the
caller's rights and credentials."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from kraft.cli.admin.app import main
from kraft.testing.process_cluster import ProcessCluster
from tests.capabilities import require_capability
from tests.integration.browser import browser

SECONDS_MAX = 60
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
NODE = f"""\
listeners=CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={PLAIN} required username="node" password="p-node" \\
  user_node="p-node" user_admin="p-admin" user_alice="p-alice" user_bob="p-bob";
listener.name.clients.scram-sha-512.sasl.jaas.config={SCRAM} required;
listener.name.controller.plain.sasl.jaas.config={PLAIN} required username="node" password="p-node" user_node="p-node";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node;User:admin
kraft.admin.authentication=basic
kraft.admin.metrics.authorize=true
delegation.token.secret.key=the secret of all nodes
"""
RECORD = {"partition_id": 0, "value": {"type": "STRING", "data": "v"}}
Answers = list[int]


class Guarded:
    def __init__(self, cluster: ProcessCluster, directory: Path) -> None:
        self.cluster = cluster
        self.urls = [node.admin_url for node in cluster.nodes.values()]
        self.properties = directory / "admin.properties"
        self.properties.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={PLAIN} required username="admin" password="p-admin";\n'
        )
        self.kafka = AdminClient(
            {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": "p-admin",
            }
        )
        self.cluster_id = self.kafka.list_topics(timeout=SECONDS_MAX).cluster_id

    def ask(
        self, user: str, method: str, path: str, node: int = 0, host: str = "127.0.0.1", **more: Any
    ) -> httpx.Response:
        """As `user`, whose password follows from the name unless told; a first `:` stands for the cluster's URL."""
        name, _, password = user.partition(":")
        path = f"/v3/clusters/{self.cluster_id}{path[1:]}" if path.startswith(":") else path
        url = self.urls[node] + path
        transport = httpx.HTTPTransport(local_address=host)
        with httpx.Client(transport=transport, timeout=SECONDS_MAX) as http:
            return http.request(method, url, auth=(name, password or f"p-{name}"), **more)

    def everywhere(self, user: str, method: str, path: str, **more: Any) -> Answers:
        return [self.ask(user, method, path, node, **more).status_code for node in range(3)]

    def kafka_by_token(self, token_id: str, hmac: str) -> None:
        """A client of Kafka's protocol logs in by a delegation token."""
        properties = self.properties.with_name("token.properties")
        properties.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={SCRAM} required username="{token_id}" password="{hmac}" tokenauth="true";\n'
        )
        common = ("--bootstrap-server", self.cluster.bootstrap, "--command-config", str(properties))
        assert main(["topics", "list", *common]) == 0

    def kraft(self, *arguments: str) -> None:
        common = ("--bootstrap-server", self.cluster.bootstrap, "--command-config", str(self.properties))
        assert main([*arguments, *common]) == 0

    def scram(self, *changes: Any) -> None:
        for future in self.kafka.alter_user_scram_credentials(list(changes)).values():
            future.result(SECONDS_MAX)

    def told(self, kind: str) -> list[dict[str, Any]]:
        """Fields of all nodes' events of a kind."""
        pages = (self.ask("admin", "GET", "/v1/events", node).json()["data"] for node in range(3))
        return [event["fields"] for page in pages for event in page if event["kind"] == kind]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("rest-logins")
    (directory / "node.properties").write_text(NODE)
    with ProcessCluster(directory / "nodes", "--config", str(directory / "node.properties"), admin=True) as cluster:
        yield Guarded(cluster, directory)


def test_without_a_password_only_the_probes_are_served(guarded: Guarded) -> None:
    for url in guarded.urls:
        assert httpx.get(f"{url}/kafka/v3/clusters").status_code == 401
        refused = httpx.get(f"{url}/v3/clusters")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Basic realm="kraft"')
        assert "Log in with the name and password" in refused.json()["detail"]
        assert [httpx.get(url + path).status_code for path in ("/livez", "/readyz")] == [200, 200]
        assert [httpx.get(url + path).status_code for path in ("/", "/metrics", "/openapi.json")] == [401] * 3


def test_a_wrong_password_is_refused_and_audited(guarded: Guarded) -> None:
    assert guarded.ask("alice:wrong", "GET", "/v1/node").status_code == 401
    assert guarded.ask("nobody", "GET", "/v1/node").status_code == 401
    failed = [each for each in guarded.told("login.failed") if each["listener"] == "HTTP_ADMIN"]
    assert [(each["mechanism"], each["host"], each["user"], each["failure"]) for each in failed[-2:]] == [
        ("BASIC", "127.0.0.1", "alice", "credentials"),
        ("BASIC", "127.0.0.1", "nobody", "credentials"),
    ]
    metrics = guarded.ask("admin", "GET", "/metrics").text
    assert 'kraft_failed_logins_total{listener="HTTP_ADMIN",mechanism="BASIC",host="127.0.0.1"' in metrics
    assert "wrong" not in guarded.ask("admin", "GET", "/v1/events").text


def test_each_caller_has_its_own_permissions_and_loses_them_immediately(guarded: Guarded) -> None:
    """One node leads the topic. The others hand the records on, as a node that may do everything."""
    assert guarded.ask("admin", "POST", ":/topics", json={"topic_name": "hers"}).status_code == 201
    until(lambda: guarded.everywhere("admin", "GET", ":/topics/hers") == [200] * 3)
    write = ("POST", ":/topics/hers/records")

    def written(user: str, **more: Any) -> list[Any]:
        return [guarded.ask(user, *write, node, json=RECORD, **more).json()["error_code"] for node in range(3)]

    assert written("alice") == [40301] * 3
    guarded.kraft("acls", "add", "--allow-principal", "User:alice", "--producer", "--topic", "hers")
    until(lambda: written("alice") == [200] * 3)
    told = guarded.ask("alice", "GET", ":/topics/hers?include_authorized_operations=true").json()
    assert told["authorized_operations"] == ["WRITE", "CREATE", "DESCRIBE"]
    assert guarded.everywhere("bob", "GET", ":/topics/hers") == [403] * 3
    assert written("bob") == [40301] * 3
    here = ("--deny-principal", "User:alice", "--deny-host", "127.0.0.9", "--operation", "Write", "--topic", "hers")
    guarded.kraft("acls", "add", *here)
    until(lambda: written("alice", host="127.0.0.9") == [40301] * 3)
    assert written("alice") == [200] * 3
    guarded.kraft("acls", "remove", "--topic", "hers", "--yes")
    until(lambda: written("alice") == [40301] * 3)
    denied = [each for each in guarded.told("access.denied") if each["principal"] == "User:alice"]
    assert {each["host"] for each in denied} == {"127.0.0.1", "127.0.0.9"}


def test_a_change_is_audited_with_name_and_address_whichever_node_served_it(guarded: Guarded) -> None:
    guarded.kraft("acls", "add", "--allow-principal", "User:bob", "--operation", "All", "--topic", "audited")
    until(lambda: guarded.ask("bob", "POST", ":/topics", json={"topic_name": "audited"}).status_code == 201)
    until(lambda: guarded.everywhere("bob", "GET", ":/topics/audited") == [200] * 3)
    for node in range(3):
        body = {"value": str(86_400_000 + node)}
        answer = guarded.ask(
            "bob", "PUT", ":/topics/audited/configs/retention.ms", node, f"127.0.0.{node + 2}", json=body
        )
        assert answer.status_code == 204

    def changed() -> list[tuple[str, str, str]]:
        told = [each for each in guarded.told("config.changed") if each["resource_name"] == "audited"]
        return [(each["principal"], each["host"], each["value"]) for each in told]

    until(lambda: len(changed()) == 3)
    assert changed() == [("User:bob", f"127.0.0.{node + 2}", str(86_400_000 + node)) for node in range(3)]


def test_cluster_information_and_metrics_need_describe_on_the_cluster(guarded: Guarded) -> None:
    assert guarded.everywhere("alice", "GET", "/metrics") == [403] * 3
    assert guarded.everywhere("alice", "GET", "/v1/events") == [403] * 3
    assert guarded.everywhere("admin", "GET", "/metrics") == [200] * 3


def test_a_login_and_its_streams_end_when_the_credential_is_removed(guarded: Guarded) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    guarded.scram(UserScramCredentialUpsertion("carol", info, b"p-carol"))
    guarded.kraft("acls", "add", "--allow-principal", "User:carol", "--operation", "Describe", "--cluster")
    until(lambda: guarded.everywhere("carol", "GET", "/v1/events") == [200] * 3)
    url, stream = f"{guarded.urls[0]}/v1/events", {"Accept": "text/event-stream"}
    with httpx.stream("GET", url, auth=("carol", "p-carol"), headers=stream, timeout=SECONDS_MAX) as open_stream:
        lines = open_stream.iter_lines()
        assert next(lines) == "retry: 1000"
        guarded.scram(UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_512))
        for _ in lines:
            pass  # It ends.
    until(lambda: guarded.everywhere("carol", "GET", "/v1/node") == [401] * 3)


def test_a_stream_ends_when_its_permission_is_removed(guarded: Guarded) -> None:
    entry = ("--allow-principal", "User:bob", "--operation", "Describe", "--cluster")
    guarded.kraft("acls", "add", *entry)
    until(lambda: guarded.everywhere("bob", "GET", "/v1/events") == [200] * 3)
    url, stream = f"{guarded.urls[0]}/v1/events", {"Accept": "text/event-stream"}
    with httpx.stream("GET", url, auth=("bob", "p-bob"), headers=stream, timeout=SECONDS_MAX) as open_stream:
        lines = open_stream.iter_lines()
        assert next(lines) == "retry: 1000"
        guarded.kraft("acls", "remove", *entry, "--yes")
        for _ in lines:
            pass  # It ends.
    until(lambda: guarded.everywhere("bob", "GET", "/v1/events") == [403] * 3)


def test_a_changed_password_invalidates_the_old_one(guarded: Guarded) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    guarded.scram(UserScramCredentialUpsertion("dave", info, b"old"))
    until(lambda: guarded.everywhere("dave:old", "GET", "/v1/node") == [200] * 3)
    guarded.scram(UserScramCredentialUpsertion("dave", info, b"new"))
    until(lambda: guarded.everywhere("dave:old", "GET", "/v1/node") == [401] * 3)
    until(lambda: guarded.everywhere("dave:new", "GET", "/v1/node") == [200] * 3)


ENTRY = {
    "resource_type": "TOPIC",
    "resource_name": "orders/1",
    "pattern_type": "LITERAL",
    "principal": "User:frank",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
"""In a topic's name no slash can stand; in an entry's it can."""
SEARCH = "resource_type=ANY&pattern_type=ANY&operation=ANY&permission=ANY"


def test_acls_are_added_listed_and_removed_with_the_permissions_of_the_caller(guarded: Guarded) -> None:
    denied = {**ENTRY, "pattern_type": "PREFIXED", "resource_name": "ord", "permission": "DENY", "host": "10.0.0.1"}
    assert guarded.everywhere("bob", "POST", ":/acls", json=ENTRY) == [403] * 3
    assert guarded.everywhere("bob", "GET", ":/acls") == [403] * 3
    assert guarded.everywhere("bob", "DELETE", ":/acls?" + SEARCH) == [403] * 3
    made = guarded.ask("admin", "POST", ":/acls", json=ENTRY)
    assert (made.status_code, made.text) == (201, "")
    path = made.headers["location"].removeprefix(guarded.urls[0])
    until(lambda: [len(guarded.ask("admin", "GET", path, node).json()["data"]) for node in range(3)] == [1, 1, 1])
    [found] = guarded.ask("admin", "GET", path).json()["data"]
    assert found == {
        "kind": "KafkaAcl", "metadata": {"self": made.headers["location"], "resource_name": None},
        "cluster_id": guarded.cluster_id, **ENTRY,
    }  # fmt: skip
    assert guarded.ask("admin", "POST", ":/acls:batch", 1, json={"data": [ENTRY, denied]}).status_code == 201
    whose = {"principal": "User:frank"}

    def known(node: int) -> int:
        return len(guarded.ask("admin", "GET", ":/acls", node, params=whose).json()["data"])

    until(lambda: [known(node) for node in range(3)] == [2, 2, 2])
    kafka = guarded.kafka.describe_acls(
        AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, "User:frank", None, AclOperation.ANY,
                         AclPermissionType.ANY)
    ).result(SECONDS_MAX)  # fmt: skip
    assert sorted(each.name for each in kafka) == ["ord", "orders/1"]
    assert guarded.ask("admin", "DELETE", ":/acls", params=whose).status_code == 400, "four have to be given"
    removed = guarded.ask("admin", "DELETE", f":/acls?{SEARCH}&principal=User:frank")
    assert (removed.status_code, len(removed.json()["data"])) == (200, 2)
    until(lambda: [known(node) for node in range(3)] == [0, 0, 0])


def test_the_permissions_of_a_principal_are_listed_with_the_deciding_acl(guarded: Guarded) -> None:
    deny = {**ENTRY, "principal": "User:*", "permission": "DENY", "host": "10.0.0.1"}
    assert guarded.ask("admin", "POST", ":/acls:batch", json={"data": [ENTRY, deny]}).status_code == 201

    def verdict(**about: str) -> Any:
        query = {"principal": "User:frank", "operation": "DESCRIBE", "resource_type": "TOPIC", **about}
        answer = guarded.ask("admin", "GET", "/v1/acls:test", params={"resource_name": "orders/1", **query})
        assert answer.status_code == 200, answer.text
        return tuple(answer.json().values())

    assert guarded.ask("bob", "GET", "/v1/acls:test", params=ENTRY).status_code == 400
    asked = {"principal": "User:frank", "operation": "READ", "resource_type": "TOPIC", "resource_name": "orders/1"}
    assert guarded.everywhere("bob", "GET", "/v1/acls:test", params=asked) == [403] * 3
    until(lambda: bool(verdict() == (True, "ENTRY", ENTRY)))
    assert verdict(operation="READ", host="10.0.0.1") == (False, "ENTRY", deny)
    assert verdict(operation="WRITE") == (False, "NO_ENTRY", None)
    assert verdict(resource_name="other") == (False, "NO_ENTRY_NAMES_RESOURCE", None)
    assert verdict(principal="User:admin", operation="ALTER", resource_type="CLUSTER") == (True, "SUPER_USER", None)
    guarded.ask("admin", "DELETE", f":/acls?{SEARCH}")


def test_users_get_and_lose_passwords_over_http(guarded: Guarded) -> None:
    put = {"password": "p-erin", "iterations": 8192}
    assert guarded.everywhere("bob", "PUT", "/v1/users/erin", json=put) == [403] * 3
    assert guarded.ask("admin", "PUT", "/v1/users/erin", 1, json=put).status_code == 204
    sha_256 = {"password": "p-erin", "mechanism": "SCRAM-SHA-256"}
    assert guarded.ask("admin", "PUT", "/v1/users/erin", json=sha_256).status_code == 204
    until(lambda: guarded.everywhere("erin", "GET", "/v1/node") == [200] * 3)
    both = {"user": "erin", "mechanisms": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192}}
    until(lambda: both in guarded.ask("admin", "GET", "/v1/users").json()["data"])
    short = guarded.ask("admin", "PUT", "/v1/users/erin", json={"password": "seen", "iterations": 1})
    assert (short.status_code, "seen" in short.text) == (400, False)
    assert guarded.ask("bob", "DELETE", "/v1/users/erin").status_code == 403
    assert guarded.ask("admin", "DELETE", "/v1/users/erin").status_code == 204
    until(lambda: guarded.everywhere("erin", "GET", "/v1/node") == [401] * 3)
    until(lambda: guarded.everywhere("admin", "DELETE", "/v1/users/erin") == [404] * 3)


def test_a_user_manages_only_its_own_tokens(guarded: Guarded) -> None:
    made = guarded.ask("alice", "POST", "/v1/delegation-tokens", json={"renewers": ["User:bob"]})
    assert made.status_code == 201, made.text
    token = made.json()
    assert (token["owner"], token["requester"], token["renewers"]) == ("User:alice", "User:alice", ["User:bob"])

    def seen(user: str, node: int) -> list[Any]:
        tokens: list[Any] = guarded.ask(user, "GET", "/v1/delegation-tokens", node).json()["data"]
        return tokens

    until(lambda: [seen(user, node) for user in ("alice", "bob") for node in range(3)] == [[token]] * 6)
    guarded.kafka_by_token(token["token_id"], token["hmac"])
    term = {"hmac": token["hmac"], "period_ms": 60_000}
    until(lambda: guarded.ask("bob", "POST", "/v1/delegation-tokens:renew", 1, json=term).status_code == 200)
    assert guarded.ask("alice", "POST", "/v1/delegation-tokens", json={"owner": "User:bob"}).status_code == 403
    assert guarded.ask("dave:new", "POST", "/v1/delegation-tokens:expire", json=term).status_code in (401, 403)
    assert guarded.ask("alice", "POST", "/v1/delegation-tokens:expire", json={"hmac": "?"}).status_code == 400
    ended = guarded.ask("alice", "POST", "/v1/delegation-tokens:expire", 2, json={"hmac": token["hmac"]})
    assert ended.status_code == 200, ended.text
    until(lambda: [seen("alice", node) for node in range(3)] == [[], [], []])
    assert guarded.ask("alice", "POST", "/v1/delegation-tokens:renew", json=term).status_code == 404


def test_commands_over_http_log_in_with_the_same_properties_as_over_the_kafka_protocol(
    guarded: Guarded, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["events", "--admin", guarded.urls[0], "--output", "json"]
    assert main(ask) != 0
    assert "requires a name and password: give --command-config FILE" in capsys.readouterr().err
    assert main([*ask, "--command-config", str(guarded.properties)]) == 0
    assert json.loads(capsys.readouterr().out)["events"]


def test_the_console_uses_the_login_of_the_browser_and_logs_out(guarded: Guarded, tmp_path: Path) -> None:
    require_capability("chromium")
    url = guarded.urls[0]
    with browser(tmp_path / "profile") as tab:
        tab.open(url.replace("http://", "http://admin:p-admin@"))  # No window shows the browser's dialog here.
        tab.until("document.title.startsWith('kraft')")
        tab.open(f"{url}/ui/brokers")
        tab.until("document.getElementById('page')?.dataset.ready === 'brokers'")
        assert "127.0.0.1" in tab.text()
        tab.run("document.querySelector('a[href=\"/logout\"]').click()")
        tab.until("document.body?.innerText.includes('You have logged out')")
        tab.open(f"{url}/ui/brokers")
        tab.until("location.href.startsWith('chrome-error:')")  # In its place a window would show the dialog.
        assert tab.complaints == []


def test_password_guesses_are_delayed_and_known_logins_and_other_addresses_are_not(guarded: Guarded) -> None:
    """From an address of their own, so that the other tests need not wait."""
    assert guarded.ask("alice", "GET", "/v1/node", host="127.0.0.77").status_code == 200

    def guess(number: int) -> int:
        return guarded.ask(f"alice:{number}", "GET", "/v1/node", host="127.0.0.77").status_code

    with ThreadPoolExecutor(16) as guessers:
        answers = list(guessers.map(guess, range(100)))
    assert answers.count(429) > 50
    assert set(answers) == {401, 429}
    assert guarded.ask("alice", "GET", "/v1/node", host="127.0.0.77").status_code == 200
    assert guarded.ask("bob", "GET", "/v1/node", host="127.0.0.78").status_code == 200
