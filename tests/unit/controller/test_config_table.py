"""The table as the controller asks it: a topic's effective configuration, with and without keys of its own, under
changing layers."""

from __future__ import annotations

import pytest

from kraft.common.config.dynamic.describe import BrokerLayers, describe_topic
from kraft.common.config.node.node_loader import load_node_config
from kraft.controller.controls.config_table import ConfigTable

STATIC = load_node_config(sets=["log.retention.ms=777", "min.insync.replicas=2"])


@pytest.mark.parametrize(
    "topic",
    [
        {},
        {"retention.ms": "5"},
        {"cleanup.policy": "compact", "segment.ms": "9"},
        {"internal.segment.bytes": "1048576"},
    ],
)
def test_the_cached_config_lookups_agree_with_the_full_computation(topic: dict[str, str]) -> None:
    table = ConfigTable(STATIC)
    for cluster, broker in (
        ({}, {}),
        ({"log.retention.ms": "6"}, {}),
        ({"log.retention.ms": "6"}, {"log.segment.bytes": "2097152"}),
        ({}, {}),
    ):
        expected = describe_topic(topic, BrokerLayers(STATIC, cluster, broker))
        found = table.effective_topic_configs(topic, broker, cluster)
        assert [(row.name, row.value, row.source) for row in found] == [
            (row.name, row.value, row.source) for row in expected
        ]


def test_the_most_specific_config_layer_wins() -> None:
    table = ConfigTable(STATIC)
    key = "min.insync.replicas"
    assert table.effective_topic_config(key, {}, {}, {}) == "2"
    assert table.effective_topic_config(key, {}, {}, {key: "3"}) == "3"
    assert table.effective_topic_config(key, {}, {key: "4"}, {key: "3"}) == "4"
    assert table.effective_topic_config(key, {key: "5"}, {key: "4"}, {key: "3"}) == "5"
    assert table.effective_topic_config(key, {key: "nonsense"}, {}, {}) == "2", (
        "a text that does not parse is passed over"
    )
    assert table.static_min_in_sync_replicas() == 2
