"""DescribeConfigs answers against those of Apache Kafka 4.3.1 with the same static, cluster-wide, per-broker and own
values.

Recorded in tests/vectors/config/described.json.gz. Kafka itself sets min.insync.replicas for the cluster when
eligible leader replicas are on.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kraft.common.config.dynamic.describe import (
    BrokerLayers,
    ConfigSource,
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_loggers,
    describe_topic,
)
from kraft.common.config.node.checks import STANDARD_AUTHORIZER
from kraft.common.config.node.layers import ConfigFile
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.config.resources import TOPIC_KEYS

NEWER = frozenset(
    (
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.group.enable",
        "errors.deadletterqueue.topic.name",
        "errors.deadletterqueue.topic.name.prefix",
        "group.streams.assignors",
        "group.streams.rack.aware.assignment.tags",
        "group.streams.topology.description.plugin.class",
        "log.remote.copy.lag.bytes",
        "log.remote.copy.lag.ms",
        "max.decompressed.message.bytes",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "streams.assignor.name",
        "streams.rack.aware.assignment.tags",
    )
)
"""Keys of Apache Kafka 4.4, which is newer than the recorded release."""
RECORDED = json.loads(
    gzip.decompress((Path(__file__).parents[4] / "vectors" / "config" / "described.json.gz").read_bytes())
)


def layers() -> BrokerLayers:
    return BrokerLayers(
        load_node_config(files=[ConfigFile("server.properties", RECORDED["properties"])]),
        RECORDED["cluster"],
        RECORDED["broker"],
    )


def ours(case: str) -> list[DescribedConfig]:
    described: list[DescribedConfig] = {
        "plain topic": lambda: describe_topic({}, layers()),
        "own topic": lambda: describe_topic(RECORDED["topic"], layers()),
        "broker": lambda: describe_broker(layers()),
        "cluster default": lambda: describe_cluster_default(RECORDED["cluster"]),
        "plain group": lambda: describe_group({}, layers()),
        "own group": lambda: describe_group(RECORDED["group"], layers()),
        "plain metrics": lambda: describe_client_metrics({}),
        "own metrics": lambda: describe_client_metrics(RECORDED["metrics"]),
    }[case]()
    return [config for config in described if config.name not in NEWER]


def shape(config: DescribedConfig) -> list[Any]:
    return [
        config.name,
        config.value,
        config.read_only,
        config.source,
        config.sensitive,
        [list(synonym) for synonym in config.synonyms],
        config.type,
    ]


@pytest.mark.parametrize("case", sorted(RECORDED["answers"]))
def test_value_source_and_synonyms_equal_kafkas(case: str) -> None:
    mine = sorted(shape(config) for config in ours(case) if not config.name.startswith(("kraft.", "rlmm.")))
    assert mine == RECORDED["answers"][case]


def test_only_named_keys_are_described_and_unknown_names_are_left_out() -> None:
    assert [config.name for config in describe_topic({}, layers(), ["retention.ms", "nonsense"])] == ["retention.ms"]


def test_a_kraft_key_is_described_only_if_set_or_named() -> None:
    name = "kraft.unclean.recovery.strategy"
    assert name not in [config.name for config in describe_topic({}, layers())]
    assert [
        (config.name, config.value, config.source)
        for config in describe_topic({name: "balanced"}, layers())
        if config.name == name
    ] == [(name, "balanced", ConfigSource.DYNAMIC_TOPIC)]
    assert [(config.name, config.value) for config in describe_topic({}, layers(), [name])] == [(name, "none")]


def test_authorizer_keys_are_described_only_if_set_or_named() -> None:
    properties = RECORDED["properties"] + f"\nauthorizer.class.name={STANDARD_AUTHORIZER}\nsuper.users=User:a"
    static = load_node_config(files=[ConfigFile("server.properties", properties)])
    own = ("super.users", "allow.everyone.if.no.acl.found")

    def shown(names: list[str] | None) -> list[tuple[str, str | None]]:
        found = describe_broker(BrokerLayers(static, {}, {}), names)
        return [(config.name, config.value) for config in found if config.name in own]

    assert shown(None) == [("super.users", "User:a")]
    assert sorted(shown(list(own))) == [("allow.everyone.if.no.acl.found", "false"), ("super.users", "User:a")]


def test_every_key_is_described_with_documentation() -> None:
    described = {config.name: config.documentation for config in describe_topic({}, layers(), TOPIC_KEYS.names())}
    assert described == {key.name: key.documentation for key in TOPIC_KEYS.public()}


def test_loggers_are_described_with_their_level_only() -> None:
    [root] = describe_loggers({"root": "INFO", "kraft.raft": "DEBUG"}, ["root"])
    assert (root.name, root.value, root.source, root.synonyms) == (
        "root",
        "INFO",
        ConfigSource.DYNAMIC_BROKER_LOGGER,
        (),
    )


def test_a_listener_key_is_described_as_by_kafka() -> None:
    name = "listener.name.plaintext.max.connections"
    static = load_node_config(sets=[f"{name}=9"])
    unlimited = ("max.connections", "2147483647", ConfigSource.DEFAULT)
    for cluster, broker, value, synonyms in (
        (
            {},
            {name: "3"},
            "3",
            [(name, "3", ConfigSource.DYNAMIC_BROKER), (name, "9", ConfigSource.STATIC_BROKER), unlimited],
        ),
        (
            {name: "4"},
            {},
            "4",
            [(name, "4", ConfigSource.DYNAMIC_DEFAULT_BROKER), (name, "9", ConfigSource.STATIC_BROKER), unlimited],
        ),
        ({}, {}, "9", [(name, "9", ConfigSource.STATIC_BROKER), unlimited]),
    ):
        (shown,) = describe_broker(BrokerLayers(static, cluster, broker), [name])
        assert (shown.value, shown.read_only, [tuple(synonym) for synonym in shown.synonyms]) == (
            value,
            False,
            synonyms,
        )
    (shown,) = describe_cluster_default({name: "4"}, None)
    assert (shown.name, shown.value, [tuple(synonym) for synonym in shown.synonyms]) == (
        name,
        "4",
        [(name, "4", ConfigSource.DYNAMIC_DEFAULT_BROKER)],
    )
    assert not [each for each in describe_broker(BrokerLayers(load_node_config(), {}, {})) if each.name == name]
