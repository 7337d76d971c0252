"""The configuration of consumer, share and streams groups, from the metadata image that handlers see."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, TypeVar

from kraft.common.config.dynamic.group_config import effective_group_config
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resource_type import ResourceType
from kraft.common.config.types import Value
from kraft.coordinator.group.consumer.settings import ConsumerGroupSettings
from kraft.coordinator.group.share.settings import ShareMembershipSettings
from kraft.coordinator.group.streams.settings import StreamsGroupSettings
from kraft.metadata.image.configs_image import ConfigResource, ConfigsImage
from kraft.metadata.metadata_cache import MetadataCache
from kraft.replication.partition import READ_COMMITTED, READ_UNCOMMITTED
from kraft.replication.topic_configs import ConfigView
from kraft.share.share_group_settings import EARLIEST, LATEST, ShareGroupSettings
from kraft.share.share_partition import Limits

T = TypeVar("T")


class GroupValues:
    """The values of all keys of one group, and the broker's bounds for them."""

    def __init__(self, overrides: dict[str, str], broker: NodeConfig) -> None:
        self._values = effective_group_config(overrides, broker)
        self._broker = broker

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def bounded(self, name: str, low: str, high: str) -> int:
        """The value, limited to the broker's bounds, which may have changed since it was set."""
        value = self.integer(name)
        return max(self._broker.integer(low), min(self._broker.integer(high), value))

    def at_most(self, name: str, high: str) -> int:
        """The value, limited to the broker's upper bound, which may have changed since it was set."""
        return min(self._broker.integer(high), self.integer(name))

    def one_of(self, name: str, offered: str) -> str:
        """The value if the broker offers it, else the first that it offers."""
        value, names = self._values[name], self._broker.texts(offered)
        return value if isinstance(value, str) and value in names else names[0]

    def integer(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int), name
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple), name
        return value


class DynamicGroupConfigs(Generic[T]):
    """The settings of groups of one kind, cached until a configuration changes. Groups without overrides, which are
    nearly all, share one value."""

    def __init__(self, metadata: MetadataCache, configs: ConfigView, settings: Callable[[GroupValues], T]) -> None:
        self._metadata = metadata
        self._configs = configs
        self._settings = settings
        self._seen: ConfigsImage | None = None
        self._plain: T | None = None
        self._own: dict[str, T] = {}

    def settings_of(self, group_id: str) -> T:
        """The group's present settings."""
        image = self._metadata.image
        plain = self._plain
        if plain is None or self._seen is not image.configs:
            self._seen = image.configs
            plain = self._plain = self._settings(GroupValues({}, self._configs.effective(image)))
            self._own = {}
        overrides = image.configs.resources.get(ConfigResource(ResourceType.GROUP, group_id))
        if overrides is None:
            return plain
        if group_id not in self._own:
            values = GroupValues(dict(overrides.items()), self._configs.effective(image))
            self._own[group_id] = self._settings(values)
        return self._own[group_id]


def consumer_settings(values: GroupValues) -> ConsumerGroupSettings:
    """The settings of a consumer group (KIP-848)."""
    return ConsumerGroupSettings(
        session_timeout_ms=values.bounded(
            "consumer.session.timeout.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms",
        ),
        heartbeat_interval_ms=values.bounded(
            "consumer.heartbeat.interval.ms",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
        ),
        assignment_interval_ms=values.bounded(
            "consumer.assignment.interval.ms",
            "group.consumer.min.assignment.interval.ms",
            "group.consumer.max.assignment.interval.ms",
        ),
    )


def share_membership_settings(values: GroupValues) -> ShareMembershipSettings:
    """The settings of a share group (KIP-932), for its coordinator."""
    return ShareMembershipSettings(
        session_timeout_ms=values.bounded(
            "share.session.timeout.ms",
            "group.share.min.session.timeout.ms",
            "group.share.max.session.timeout.ms",
        ),
        heartbeat_interval_ms=values.bounded(
            "share.heartbeat.interval.ms",
            "group.share.min.heartbeat.interval.ms",
            "group.share.max.heartbeat.interval.ms",
        ),
        assignment_interval_ms=values.bounded(
            "share.assignment.interval.ms",
            "group.share.min.assignment.interval.ms",
            "group.share.max.assignment.interval.ms",
        ),
    )


def streams_settings(values: GroupValues) -> StreamsGroupSettings:
    """The settings of a streams group (KIP-1071)."""
    return StreamsGroupSettings(
        session_timeout_ms=values.bounded(
            "streams.session.timeout.ms",
            "group.streams.min.session.timeout.ms",
            "group.streams.max.session.timeout.ms",
        ),
        heartbeat_interval_ms=values.bounded(
            "streams.heartbeat.interval.ms",
            "group.streams.min.heartbeat.interval.ms",
            "group.streams.max.heartbeat.interval.ms",
        ),
        assignment_interval_ms=values.bounded(
            "streams.assignment.interval.ms",
            "group.streams.min.assignment.interval.ms",
            "group.streams.max.assignment.interval.ms",
        ),
        initial_rebalance_delay_ms=values.integer("streams.initial.rebalance.delay.ms"),
        standby_count=values.at_most("streams.num.standby.replicas", "group.streams.max.standby.replicas"),
        rack_aware_tags=values.texts("streams.rack.aware.assignment.tags"),
        assignor=values.one_of("streams.assignor.name", "group.streams.assignors"),
    )


def share_settings(values: GroupValues) -> ShareGroupSettings:
    """The settings of a share group (KIP-932), for the leaders of partitions."""
    letter_topic = str(values["errors.deadletterqueue.topic.name"])
    return ShareGroupSettings(
        limits=Limits(
            record_locks_max=values.bounded(
                "share.partition.max.record.locks",
                "group.share.min.partition.max.record.locks",
                "group.share.max.partition.max.record.locks",
            ),
            delivery_count_max=values.bounded(
                "share.delivery.count.limit",
                "group.share.min.delivery.count.limit",
                "group.share.max.delivery.count.limit",
            ),
            lock_ms=values.bounded(
                "share.record.lock.duration.ms",
                "group.share.min.record.lock.duration.ms",
                "group.share.max.record.lock.duration.ms",
            ),
            renews=values["share.renew.acknowledge.enable"] is True,
            writes_letters=bool(letter_topic),
        ),
        offset_reset=_offset_reset(str(values["share.auto.offset.reset"])),
        isolation=READ_COMMITTED if values["share.isolation.level"] == "read_committed" else READ_UNCOMMITTED,
        letter_topic=letter_topic,
        copies_records=values["errors.deadletterqueue.copy.record.enable"] is True,
    )


def _offset_reset(text: str) -> int:
    """The parsed value of `share.auto.offset.reset`: EARLIEST, LATEST, or the milliseconds of
    `by_duration:PnDTnHnMn.nS`. The text must be valid."""
    word = text.lower()
    if not word.startswith("by_duration:"):
        return EARLIEST if word == "earliest" else LATEST
    seconds = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
    return int(sum(float(count) * seconds[unit] for count, unit in re.findall(r"([0-9.]+)([dhms])", word)) * 1000)
