"""A secured cluster of Apache Kafka becomes one of ours node by node and goes back: logins, permissions, delegation
tokens and quotas are the same before, meanwhile and afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java.kafka import BEFORE, REFERENCE
from tests.capabilities import require_capability
from tests.integration.rolling_clients import GROUPS, Clients
from tests.integration.rolling_kafka import SECONDS_MAX, until
from tests.integration.secured_kafka import ADMIN, ANSWERS, CLOSED, DENIED, OPEN, RULES, SecuredCluster

CHANGES = ((1, True), (2, True), (3, True), (3, False), (1, False), (2, False))
ASKED_AFTER = (1, 3, 6)
"""Changes: of a mixed cluster, of one of ours, and of one of Kafka's."""


class Secrets:
    """Users and tokens that are made while the nodes change, and stay."""

    def __init__(self, cluster: SecuredCluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster = cluster
        self.capsys = capsys
        self.users: list[str] = []
        self.tokens: list[tuple[str, str]] = []

    def more(self, number: int) -> None:
        """Another user and another token, made by way of a node, are known to every node, as the earlier ones are."""
        user = f"user{len(self.users)}"
        self.cluster.add_user(user, number)
        self.users.append(user)
        for node in self.cluster.members:
            until(lambda at=node: self.cluster.logs_in(user, at), f"login of {user} at node {node}")  # type: ignore[misc]
            for each in self.users:
                assert self.cluster.logs_in(each, node), (each, node)
            assert not self.cluster.logs_in(user, node, "wrong")
        self.capsys.readouterr()
        owner = self.cluster.command_config("guest")
        assert self.cluster.kraft("tokens", "create", "-o", "json", number=number, by=owner) == 0
        token = json.loads(self.capsys.readouterr().out)
        self.tokens.append((token["token_id"], token["hmac"]))
        for node in self.cluster.members:
            for identity, hmac in self.tokens:
                assert self.lets_in(node, identity, hmac), (node, identity)
                assert self.cluster.kraft("tokens", "renew", hmac, "--hours", "3", number=node, by=owner) == 0

    def lets_in(self, node: int, identity: str, hmac: str) -> bool:
        """Whether a node lets a token in, as its owner: it sees what guest sees."""
        by = self.cluster.command_config(identity, hmac, token=True)
        self.capsys.readouterr()
        until(lambda: self.cluster.kraft("topics", "list", "-o", "json", number=node, by=by) == 0, "login by token")
        names = {each["name"] for each in json.loads(self.capsys.readouterr().out)["topics"]}
        return OPEN in names and not names & {DENIED, CLOSED}

    def expire(self, number: int) -> None:
        """A token that has ended is known to no node."""
        identity, hmac = self.tokens.pop(0)
        owner = self.cluster.command_config("guest")
        assert self.cluster.kraft("tokens", "expire", hmac, number=number, by=owner) == 0
        by = self.cluster.command_config(identity, hmac, token=True)
        for node in self.cluster.members:
            until(lambda at=node: self.cluster.kraft("topics", "list", number=at, by=by) != 0, "end of the token")  # type: ignore[misc]


def prepare(cluster: SecuredCluster) -> None:
    until(lambda: cluster.logs_in(ADMIN, 1), "login of the administrator")
    for user in ("app", "guest", "slow"):
        cluster.add_user(user, 1)
    for rule in RULES:
        assert cluster.kraft("acls", "add", *rule, number=1) == 0
    made = [NewTopic(name, 1, 3) for name in (OPEN, DENIED, CLOSED)]
    admin = AdminClient(cluster.client(ADMIN, 1))
    for future in admin.create_topics(made).values():
        future.result(SECONDS_MAX)
    assert cluster.kraft("quotas", "set", "producer_byte_rate=20000", "--user", "slow", number=1) == 0


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("dynamic", "release", "mutual", "pkcs12"),
    [
        pytest.param(True, REFERENCE, True, True, id="certificates-of-controllers-in-pkcs12"),
        pytest.param(False, BEFORE, False, False, id="logins-of-controllers-and-keys-in-pem"),
    ],
)
def test_logins_permissions_tokens_and_quotas_are_the_same_while_kafkas_nodes_are_replaced_and_come_back(
    dynamic: bool, release: str, mutual: bool, pkcs12: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_capability("java17")
    require_capability("mvn")
    cluster = SecuredCluster(tmp_path, dynamic=dynamic, release=release, mutual=mutual, pkcs12=pkcs12)
    secrets = Secrets(cluster, capsys)

    def compare() -> None:
        assert cluster.answers() == {(number, *asked): told for number in cluster.members for asked, told in answers}
        assert all(cluster.refused_at_controller(number) for number in cluster.members)
        assert cluster.quotas(1, capsys) == cluster.quotas(2, capsys) == cluster.quotas(3, capsys) == quotas
        assert cluster.throttled_ms(1) > 0

    answers = list(ANSWERS.items())
    quotas = {"quotas": [{"entity": {"user": "slow"}, "limits": {"producer_byte_rate": 20000.0}}]}
    try:
        cluster.start()
        prepare(cluster)
        until(lambda: cluster.quotas(1, capsys) == quotas, "quota")
        clients = Clients(cluster.bootstrap, cluster.login_of("app"))
        clients.create_topics()
        until(lambda: cluster.lagging() == [], "replicas in sync")
        clients.start()
        try:
            until(lambda: all(clients.seen[name] for name in GROUPS), "record in each group")
            compare()
            secrets.more(1)
            for count, (number, ours) in enumerate(CHANGES, 1):
                cluster.change(number, ours=ours)
                secrets.more(number)
                if count in ASKED_AFTER:
                    compare()
                    secrets.expire(number)
        finally:
            clients.stop()
        clients.judge(tmp_path)
    finally:
        cluster.kill()
