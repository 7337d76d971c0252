"""The limits of connections follow the dynamic configuration."""

from __future__ import annotations

from types import SimpleNamespace

from kraft.common.config.node_loader import load_node_config
from kraft.metadata.image.metadata_changes import MetadataChanges
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.publisher import MetadataUpdate
from kraft.metadata.records.config_record import ConfigRecord
from kraft.network.limits import ConnectionCounts, ConnectionLimits
from kraft.replication.topic_configs import ConfigView
from kraft.server.connection_limits import DynamicConnectionLimits

BROKER = 4


def update(image: MetadataImage, *records: ConfigRecord) -> MetadataUpdate:
    after, changes = image.replay_batch(list(records)) if records else (image, MetadataChanges.between(image, image))
    return MetadataUpdate(after, changes, 1, 1, 0, 1, False)


def setting(node: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER, resource_name=node, name=name, value=value)


def test_an_altered_limit_holds_for_the_next_connection() -> None:
    server = SimpleNamespace(limits=ConnectionLimits())
    config = load_node_config(sets=["log.dirs=/data", "max.connections=100", "max.connections.per.ip=7"])
    limits = DynamicConnectionLimits(ConfigView(config), [server])  # type: ignore[list-item]
    limits.publish(first := update(MetadataImage()))
    assert (server.limits.connections_max, server.limits.connections_per_ip_max) == (100, 7)
    limits.publish(second := update(first.image, setting("", "max.connections", "5"), setting("1", "max.connections.per.ip.overrides", "10.0.0.1:0")))
    assert (server.limits.connections_max, server.limits.connections_per_ip_max) == (5, 7)
    assert "max.connections.per.ip=0" in str(ConnectionCounts().refusal("10.0.0.1", server.limits))
    limits.publish(third := update(second.image, setting("1", "max.connections", "3"), setting("2", "max.connections", "1")))
    assert server.limits.connections_max == 3
    limits.publish(update(third.image, setting("1", "max.connections", None), setting("", "max.connections", None)))
    assert server.limits.connections_max == 100
