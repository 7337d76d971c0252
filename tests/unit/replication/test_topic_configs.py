"""What changes while a broker runs reaches the logs: each dynamic broker key that gives topics a default."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraft.common.config.definition import ConfigKey, Status, UpdateMode
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.resources import BROKER_KEYS, TOPIC_KEYS, TOPIC_SYNONYMS
from kraft.metadata.image.configs_image import ConfigsDraft
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.records.config_record import ConfigRecord
from kraft.replication.topic_configs import ConfigView

OTHER_VALUES = {
    "log.cleanup.policy": "compact",
    "compression.type": "zstd",
    "log.message.timestamp.type": "LogAppendTime",
    "log.cleaner.min.cleanable.ratio": "0.25",
    "compression.gzip.level": "7",
    "compression.lz4.level": "3",
    "compression.zstd.level": "9",
}
DYNAMIC = [
    pytest.param(topic_key, BROKER_KEYS[synonym.name], id=synonym.name)
    for topic_key, synonyms in TOPIC_SYNONYMS.items()
    for synonym in synonyms
    if BROKER_KEYS[synonym.name].update_mode != UpdateMode.READ_ONLY
    and BROKER_KEYS[synonym.name].status == TOPIC_KEYS[topic_key].status == Status.ENFORCED
    and topic_key not in ("kraft.unclean.recovery.strategy", "unclean.leader.election.enable")
]
"""Those of elections are the controller's."""


def set_for(image: MetadataImage, resource: int, name: str, key: str, value: str) -> MetadataImage:
    draft = ConfigsDraft(image.configs)
    draft.config(ConfigRecord(resource_type=resource, resource_name=name, name=key, value=value))
    return replace(image, configs=draft.finish())


def set_for_every_broker(key: str, value: str) -> MetadataImage:
    return set_for(MetadataImage(), ResourceType.BROKER, "", key, value)


@pytest.mark.parametrize(("topic_key", "key"), DYNAMIC)
def test_a_broker_default_changed_at_run_time_applies_to_logs(topic_key: str, key: ConfigKey) -> None:
    view = ConfigView(load_node_config(sets=["log.dirs=/data"]))
    before = view.topic(MetadataImage(), "t")
    after = view.topic(set_for_every_broker(key.name, OTHER_VALUES.get(key.name, "1048576")), "t")
    assert after != before
    field = topic_key.replace(".", "_")
    changed = (after.log, before.log) if hasattr(after.log, field) else (after, before)
    assert changed[0] != changed[1], field


def test_topic_overrides_are_computed_once_per_configuration_image() -> None:
    view = ConfigView(load_node_config(sets=["log.dirs=/data"]))
    first = set_for(MetadataImage(), ResourceType.TOPIC, "t", "retention.ms", "1000")
    first = set_for(first, ResourceType.TOPIC, "u", "retention.ms", "2000")
    assert view.topic(first, "t").log.retention_ms == 1000
    assert view.topic(first, "u").log.retention_ms == 2000
    assert view.topic(first, "t") is view.topic(replace(first), "t")
    assert view.topic(set_for(first, ResourceType.TOPIC, "t", "retention.ms", "3000"), "t").log.retention_ms == 3000
    broader = set_for(first, ResourceType.BROKER, "", "log.segment.bytes", "1048576")
    assert view.topic(broader, "t").log.segment_bytes == 1048576
    assert view.topic(first, "t").log.segment_bytes == 1 << 30
