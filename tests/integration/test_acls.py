"""Three nodes with an authorizer, where everybody logs in: who has no entry is refused by the exact code, and let in
once there is one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java.kafka import tool
from kraft.cli.admin.app import main
from kraft.testing.process_cluster import ProcessCluster
from tests.capabilities import require_capability
from tests.integration.acl_clients import SECONDS_MAX, until

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = ("node", "admin", "alice", "bob", "java")
NODE = f"""\
listeners=CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={PLAIN} required username="node" password="p-node" \\
  {" ".join(f'user_{name}="p-{name}"' for name in USERS)};
listener.name.controller.plain.sasl.jaas.config={PLAIN} required username="node" password="p-node" user_node="p-node";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node;User:admin
kraft.admin.principal=User:web
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
"""


class Guarded(NamedTuple):
    cluster: ProcessCluster
    directory: Path

    def librdkafka(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.cluster.bootstrap,
            "log_level": 0,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"p-{user}",
        }

    def command_config(self, user: str) -> str:
        path = self.directory / f"{user}.properties"
        path.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={PLAIN} required username="{user}" password="p-{user}";\n'
        )
        return str(path)

    def kraft(self, *arguments: str, user: str = "admin") -> int:
        return main(
            [*arguments, "--bootstrap-server", self.cluster.bootstrap, "--command-config", self.command_config(user)]
        )

    def produce(self, user: str, topic: str) -> int:
        """The error code of one record sent, 0 for none."""
        outcomes: list[int] = []
        producer = Producer({**self.librdkafka(user), "acks": "all"})
        producer.produce(topic, b"v", callback=lambda problem, _: outcomes.append(problem.code() if problem else 0))
        assert producer.flush(SECONDS_MAX) == 0
        return outcomes[0]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("acls")
    (directory / "node.properties").write_text(NODE)
    with ProcessCluster(directory / "nodes", "--config", str(directory / "node.properties"), admin=True) as cluster:
        found = Guarded(cluster, directory)
        admin = AdminClient(found.librdkafka("admin"))
        topics = [NewTopic(name, 1, 3) for name in ("orders", "prefixed-1", "java", "web")]
        for future in admin.create_topics(topics).values():
            future.result(SECONDS_MAX)
        yield found


def test_a_producer_is_denied_without_an_allow_acl_and_with_a_deny_acl(
    guarded: Guarded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded.produce("alice", "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "orders" not in AdminClient(guarded.librdkafka("alice")).list_topics(timeout=SECONDS_MAX).topics
    assert guarded.kraft("acls", "add", "--allow-principal", "User:alice", "--producer", "--topic", "orders") == 0
    assert capsys.readouterr().out == (
        "added: User:alice may Write topic orders; User:alice may Describe topic orders; "
        "User:alice may Create topic orders\n"
    )
    until(lambda: guarded.produce("alice", "orders") == 0)
    assert guarded.kraft("acls", "add", "--deny-principal", "User:*", "--operation", "write", "--topic", "orders") == 0
    until(lambda: guarded.produce("alice", "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert guarded.produce("admin", "orders") == 0
    capsys.readouterr()
    assert guarded.kraft("acls", "list", "--topic", "orders", "--principal", "User:*", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "acls": [
            {
                "resource_type": "TOPIC",
                "resource_name": "orders",
                "pattern_type": "LITERAL",
                "principal": "User:*",
                "host": "*",
                "operation": "WRITE",
                "permission": "DENY",
            }
        ]
    }
    assert guarded.kraft("acls", "remove", "--topic", "orders", "--yes") == 0
    assert "User:* must not Write topic orders" in capsys.readouterr().out
    assert guarded.kraft("acls", "remove", "--topic", "orders", "--yes") == 3


def test_a_consumer_is_denied_its_group_until_an_acl_allows_it(guarded: Guarded) -> None:
    assert guarded.produce("admin", "prefixed-1") == 0

    def outcome() -> int:
        """0 for a record, else the error code that came first."""
        consumer = Consumer({**guarded.librdkafka("bob"), "group.id": "readers", "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe(["prefixed-1"])
            message = consumer.poll(SECONDS_MAX)
            assert message is not None
            problem = message.error()
            return 0 if problem is None else int(problem.code())
        finally:
            consumer.close()

    allow = ("acls", "add", "--allow-principal", "User:bob", "--operation", "Read")
    assert guarded.kraft(*allow, "--topic", "prefixed-", "--resource-pattern-type", "prefixed") == 0
    until(lambda: outcome() == KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert guarded.kraft(*allow, "--group", "readers") == 0
    until(lambda: outcome() == 0)


def test_a_client_without_alter_permission_on_the_cluster_changes_no_acls(
    guarded: Guarded, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever node is asked hands the request on as the client's, and not as its own."""
    arguments = ("acls", "add", "--allow-principal", "User:alice", "--cluster")
    for address in guarded.cluster.bootstrap.split(","):
        config = guarded.command_config("alice")
        assert main([*arguments, "--bootstrap-server", address, "--command-config", config]) == 1
        assert "CLUSTER_AUTHORIZATION_FAILED" in capsys.readouterr().err
    admin = AdminClient(guarded.librdkafka("alice"))
    with pytest.raises(KafkaException) as refused:
        futures = admin.create_topics([NewTopic("more", 1, 1)])
        futures["more"].result(SECONDS_MAX)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_http_admin_has_the_permissions_of_its_principal_on_every_node(guarded: Guarded) -> None:
    """One node leads the topic. The others hand the records on, as a node that may do everything."""
    admins = [node.admin_url for node in guarded.cluster.nodes.values()]
    cluster_id = AdminClient(guarded.librdkafka("admin")).list_topics(timeout=SECONDS_MAX).cluster_id

    def status(url: str, body: str | None = None) -> int:
        request = urllib.request.Request(
            url, data=body.encode() if body else None, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                document = json.loads(answer.read())
                code = int(document.get("error_code", answer.status))  # Each record answers for itself.
                return code // 100 if code >= 1000 else code
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code

    def outcomes() -> list[tuple[int, int, int]]:
        """Of facts, of records sent, and of a request that the controller decides, at each node."""
        body = '{"partition_id": 0, "value": {"type": "STRING", "data": "v"}}'
        return [
            (
                status(f"{url}/v1/events"),
                status(f"{url}/v3/clusters/{cluster_id}/topics/web/records", body),
                status(f"{url}/v3/clusters/{cluster_id}/topics", '{"topic_name": "orders"}'),
            )
            for url in admins
        ]

    assert outcomes() == [(403, 403, 403)] * 3
    allow = ("acls", "add", "--allow-principal", "User:web")
    assert guarded.kraft(*allow, "--operation", "Describe", "--cluster", "--topic", "web") == 0
    until(lambda: all(status(f"{url}/v3/clusters/{cluster_id}/topics/web") == 200 for url in admins))
    assert outcomes() == [(200, 403, 403)] * 3
    assert guarded.kraft(*allow, "--producer", "--topic", "web") == 0
    until(lambda: outcomes() == [(200, 200, 403)] * 3)
    assert [status(f"{url}/v1/cluster/health") for url in admins] == [200] * 3


def test_failed_logins_and_acl_changes_appear_in_events_and_metrics(guarded: Guarded) -> None:
    admins = [node.admin_url for node in guarded.cluster.nodes.values()]
    guarded.kraft("acls", "add", "--allow-principal", "User:web", "--operation", "Describe", "--cluster")

    def text(path: str) -> str:
        pages = []
        for url in admins:
            with urllib.request.urlopen(f"{url}{path}", timeout=SECONDS_MAX) as answer:
                pages.append(answer.read().decode())
        return "\n".join(pages)

    wrong = AdminClient({**guarded.librdkafka("alice"), "sasl.password": "a-wrong-one"})
    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=5)
    assert guarded.kraft("configs", "set", "topic", "orders", "retention.ms=86400000") == 0
    assert guarded.kraft("quotas", "set", "--user", "alice", "producer_byte_rate=1000000") == 0

    def told() -> list[dict[str, Any]]:
        pages = (json.loads(page) for page in text("/v1/events").splitlines())
        return [event for page in pages for event in page["data"]]

    until(lambda: {"login.failed", "config.changed", "quota.changed"} <= {each["kind"] for each in told()})
    by_kind = {each["kind"]: each["fields"] for each in told()}
    failed = by_kind["login.failed"]
    assert (failed["listener"], failed["mechanism"], failed["user"], failed["failure"]) == (
        "CLIENTS",
        "PLAIN",
        "alice",
        "credentials",
    )
    changed = by_kind["config.changed"]
    assert (changed["principal"], changed["resource_name"], changed["value"]) == ("User:admin", "orders", "86400000")
    assert by_kind["quota.changed"]["entity"] == "user alice"
    assert "a-wrong-one" not in text("/v1/events")
    metrics = text("/metrics")
    assert 'kraft_failed_logins_total{listener="CLIENTS",mechanism="PLAIN",host="127.0.0.1",failure="credentials"}' in (
        metrics
    )
    assert 'kraft_logins_total{listener="CLIENTS",mechanism="PLAIN"}' in metrics


@pytest.mark.java
def test_kafka_acls_adds_lists_and_removes_acls(guarded: Guarded) -> None:
    require_capability("java17")
    require_capability("mvn")
    common = ("--bootstrap-server", guarded.cluster.bootstrap, "--command-config", guarded.command_config("admin"))
    added = tool("acls", *common, "--add", "--allow-principal", "User:java", "--producer", "--topic", "java")
    assert "(principal=User:java, host=*, operation=WRITE, permissionType=ALLOW)" in added.stdout, added
    until(lambda: guarded.produce("java", "java") == 0)
    tool("acls", *common, "--remove", "--topic", "java", "--force")
    until(lambda: guarded.produce("java", "java") == KafkaError.TOPIC_AUTHORIZATION_FAILED)
