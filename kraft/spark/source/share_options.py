"""Options of `spark.readStream` with a share group, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kraft.spark.option_values import number
from kraft.spark.source.options import SourceOptions, kafka_options, librdkafka_for, lower, stream_options

OFFSETS_OF_GROUP: Final = "share.auto.offset.reset of the group decides where it starts"
WITHOUT_SHARE_GROUP: Final = {
    "assign": "the group distributes the partitions; name topics with subscribe",
    "subscribePattern": "a share group subscribes to names; name topics with subscribe",
    "startingOffsets": OFFSETS_OF_GROUP,
    "startingOffsetsByTimestamp": OFFSETS_OF_GROUP,
    "startingTimestamp": OFFSETS_OF_GROUP,
    "startingOffsetsByTimestampStrategy": OFFSETS_OF_GROUP,
    "failOnDataLoss": "the group skips records that retention has deleted",
    "minPartitions": "set readers, the number of tasks",
    "maxRecordsPerPartition": "set readers, the number of tasks",
    "minOffsetsPerTrigger": "records that wait for others would be locked",
    "maxTriggerDelay": "records that wait for others would be locked",
    "groupIdPrefix": "shareGroup names the group",
    "commitGroup": "`kraft share describe` shows the lag of the share group",
    "kafka.group.id": "shareGroup names the group",
    "kafka.isolation.level": "share.isolation.level of the group decides which records it delivers",
}
"""Options of streams that cannot be combined with shareGroup, with the reason."""


def share_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a stream, which may read from a share group. Raises ValueError as `stream_options`; for an
    option that has no meaning with a share group; and for a property that only librdkafka supports."""
    given = lower(options)
    if "sharegroup" not in given:
        if "readers" in given:
            raise ValueError("Option readers needs shareGroup; without it set minPartitions")
        return stream_options(options)
    for name, reason in WITHOUT_SHARE_GROUP.items():
        if name.lower() in given:
            raise ValueError(f"Option {name} cannot be combined with shareGroup: {reason}")
    group = given["sharegroup"].strip()
    if not group:
        raise ValueError("Option shareGroup must name a share group, and is empty")
    parsed = stream_options(options)
    if not parsed.direct:
        needed = librdkafka_for(kafka_options(given))
        needing = "fetcher=librdkafka" if needed is None else f"kafka.{needed}"
        raise ValueError(f"Option {needing} cannot be combined with shareGroup: librdkafka reads no share groups here")
    offsets_max = parsed.offsets_per_trigger_max
    if offsets_max is not None and offsets_max < 1:
        raise ValueError("maxOffsetsPerTrigger must be positive")
    readers = number(given, "readers", at_least=1, otherwise="readers must be positive")
    return replace(parsed, share_group=group, readers=readers, fail_on_data_loss=False)
