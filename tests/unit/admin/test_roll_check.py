"""What nodes of Apache Kafka's cluster would meet if they were replaced one by one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kraft.admin.cluster import Quorum, QuorumReplica
from kraft.admin.features import Feature
from kraft.admin.groups import ListedGroup
from kraft.admin.metadata import Partition, Topic
from kraft.admin.roll_check import CHANGES, FINE, STOPS, RollFinding, is_safe, judge_cluster, judge_file
from kraft.admin.roll_facts import RollFacts
from kraft.common.config.node.layers import ConfigFile
from kraft.common.config.node.node_config import NodeConfig

PAGE = Path(__file__).parents[3] / "docs" / "operations" / "migrate.md"
USUAL = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=a:9093,b:9093,c:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://a:9092,CONTROLLER://a:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
log.dirs=/var/lib/kafka
"""


def quorum(*nodes: int, static: bool = False) -> Quorum:
    voters = tuple(QuorumReplica(node, bytes(15) + bytes([0 if static else node]), 9, 0, 1, 1) for node in nodes)
    return Quorum(nodes[0], 3, 9, voters, (), ())


def topic(name: str, in_sync: tuple[int, ...] = (1, 2, 3), replicas: tuple[int, ...] = (1, 2, 3)) -> Topic:
    return Topic(name, bytes(16), False, (Partition(0, in_sync[0], 0, replicas, in_sync, ()),))


def facts(level: int = 30, **other: Any) -> RollFacts:
    usual: dict[str, Any] = {
        "features": (Feature("metadata.version", level, 7, 33), Feature("group.version", 1, 0, 1)),
        "quorum": quorum(1, 2, 3),
        "topics": (topic("t"),),
        "minima": {"t": 2},
        "tiered": (),
        "groups": (),
        "settings": {},
        "permissions": None,
        "users": 0,
    }
    return RollFacts(**{**usual, **other})


def judged(found: list[RollFinding], verdict: str) -> list[str]:
    return [f"{each.subject}: {each.finding}" for each in found if each.verdict == verdict]


def stops(text: str) -> list[str]:
    return judged(judge_file(ConfigFile("/etc/kafka/server.properties", USUAL + text)), STOPS)


def changes(text: str) -> list[str]:
    return judged(judge_file(ConfigFile("/etc/kafka/server.properties", USUAL + text)), CHANGES)


def test_a_usual_cluster_can_be_replaced() -> None:
    group = ListedGroup(group_id="g", protocol_type="consumer", state="Stable", type="Classic", coordinator=1)
    settings = {node: {"num.partitions": "3", "log.dirs": "/d"} for node in (1, 2)}
    found = judge_cluster(facts(groups=(group,), settings=settings, permissions=4, users=2))
    assert is_safe(found)
    assert judged(found, FINE) == [
        "features: metadata.version 30 (4.3-IV0), group.version 1",
        "quorum: 3 dynamic voters: 1,2,3",
        "partitions: 1 partition, all replicas in sync",
        "groups: groups by protocol: 1 classic",
        "security: 4 access control entries, 2 users of SCRAM",
        "brokers 1,2: 2 settings mean the same as in Kafka",
    ]


def test_a_level_that_a_node_does_not_support_stops_the_roll() -> None:
    found = judge_cluster(facts(6))
    assert judged(found, STOPS) == ["metadata.version: metadata.version is 6, and the lowest that kraft serves is 7"]
    newer = (Feature("metadata.version", 34, 7, 34), Feature("tomorrow.version", 1, 0, 1))
    assert len(judged(judge_cluster(facts(features=newer)), STOPS)) == 2


def test_a_replica_that_is_not_in_sync_stops_the_roll() -> None:
    found = judge_cluster(facts(topics=(topic("t"), topic("u", in_sync=(1, 2)))))
    assert judged(found, STOPS) == ["partitions: replicas are missing from the in-sync set of u-0"]


def test_operations_interrupted_by_a_replacement_are_listed() -> None:
    found = judge_cluster(facts(topics=(topic("t", (1, 2), (1, 2)),), quorum=quorum(1, static=True)))
    assert is_safe(found)
    assert judged(found, CHANGES) == [
        "quorum: 1 static voter: 1. While a voter is replaced the cluster has no active controller",
        "partitions: not writable while a node with a replica is replaced: t-0",
    ]


def test_segments_stored_by_a_plugin_stop_the_roll() -> None:
    found = judge_cluster(facts(tiered=tuple(f"t{number}" for number in range(7))))
    assert judged(found, STOPS) == [
        "tiered topics: segments in remote storage are written by a plugin: t0, t1, t2, t3, t4 and 2 more"
    ]


def test_settings_of_brokers_are_judged_and_brokers_with_the_same_are_named_together() -> None:
    policy = {"create.topic.policy.class.name": "com.example.P"}
    found = judge_cluster(facts(settings={1: policy, 2: {}, 3: {**policy, "num.io.threads": "16"}}))
    assert [line.partition(" is not")[0] for line in judged(found, STOPS)] == [
        "brokers 1,3: create.topic.policy.class.name"
    ]
    assert [line.partition(" has no")[0] for line in judged(found, CHANGES)] == ["broker 3: num.io.threads"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("authorizer.class.name=com.example.Ranger\n", "authorizer.class.name com.example.Ranger cannot be loaded"),
        ("principal.builder.class=com.example.B\n", "principal.builder.class is not served"),
        ("client.quota.callback.class=com.example.Q\n", "client.quota.callback.class is not served"),
        ("remote.log.storage.system.enable=true\n", "remote.log.storage.system.enable needs"),
        ("zookeeper.connect=z:2181\n", "bridge release"),
        ("num.partition=3\n", "unknown key num.partition - did you mean num.partitions?"),
    ],
)
def test_a_key_whose_guarantee_a_node_does_not_give_stops_the_roll(text: str, said: str) -> None:
    [found] = stops(text)
    assert found.startswith("server.properties:9: ")
    assert said in found


def test_kerberos_stops_the_roll_if_a_listener_requires_logins() -> None:
    clients = "listeners=SASL_PLAINTEXT://:9092,CONTROLLER://:9093\nadvertised.listeners=SASL_PLAINTEXT://a:9092\n"
    between = "inter.broker.listener.name=SASL_PLAINTEXT\nsasl.mechanism.inter.broker.protocol=PLAIN\n"
    assert any("GSSAPI" in each for each in stops(clients + between + "sasl.enabled.mechanisms=GSSAPI,PLAIN\n"))
    assert any("by default" in each for each in stops(clients + between))
    assert not any("GSSAPI" in each for each in stops(clients + between + "sasl.enabled.mechanisms=PLAIN\n"))
    assert stops("sasl.enabled.mechanisms=GSSAPI\n") == []


def test_faults_in_key_files_stop_the_roll_like_problems_of_lines() -> None:
    def in_key_files(config: NodeConfig) -> list[str]:
        return [f"{config.tls_values('CLIENTS')['ssl.keystore.location']} is a JKS file"]

    text = USUAL.replace("PLAINTEXT://:9092", "CLIENTS://:9092").replace("PLAINTEXT://a:9092", "CLIENTS://a:9092")
    text += "listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENTS:SSL\nssl.keystore.location=/k.jks\n"
    found = judge_file(ConfigFile("/etc/server.properties", f"{text}num.partition=3\n"), None, in_key_files)
    assert [line.partition(" - ")[0] for line in judged(found, STOPS)] == [
        "server.properties:11: unknown key num.partition",
        "server.properties: /k.jks is a JKS file",
    ]


def test_keys_of_an_authorizer_do_not_stop_the_roll_without_an_authorizer() -> None:
    text = "super.users=User:a;b\nallow.everyone.if.no.acl.found=true\n"
    assert stops(text) == []
    assert [line.partition(" without")[0] for line in changes(text)] == [
        "server.properties:9: super.users has no effect",
        "server.properties:10: allow.everyone.if.no.acl.found has no effect",
    ]


def test_keys_without_effect_change_something_and_the_others_are_counted() -> None:
    text = (
        "metric.reporters=com.example.R\nconfluent.x=1\nnum.io.threads=16\ninter.broker.protocol.version=3.9\n"
        "num.partitions=6\n"
    )
    found = judge_file(ConfigFile("/etc/kafka/server.properties", USUAL + text))
    assert is_safe(found)
    assert [line.partition(": ")[0] for line in judged(found, CHANGES)] == [
        f"server.properties:{line}" for line in (9, 10, 11, 12)
    ]
    assert judged(found, FINE) == ["server.properties: 9 keys mean the same as in Kafka"]


def test_the_table_of_keys_in_the_page_matches_the_verdict_on_each_key() -> None:
    rows = re.findall(
        r"^\| `([\w.]+=\S+)` \| (fine|changes|stops it) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) >= 16
    for pair, fate in rows:
        found = judge_file(ConfigFile("server.properties", f"{USUAL}{pair}\n"))
        [told] = [each.verdict for each in found if each.subject == "server.properties:9"] or [FINE]
        assert told == fate, pair
