"""Broker keys. Committed offsets and the topic that keeps them."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, ENFORCED, HIGH, INT, LONG, READ_ONLY, SHORT
from kraft.common.config.validators import ANYTHING, at_least

KEYS: Final[tuple[ConfigKey, ...]] = (
    key(
        "offsets.topic.num.partitions",
        INT,
        "50",
        HIGH,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "Partitions of the topic that keeps committed offsets. It must not change once the topic exists.",
    ),
    key(
        "offsets.topic.replication.factor",
        SHORT,
        "3",
        HIGH,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        (
            "Replicas of that topic. A quorum of one defaults to 1; otherwise creation waits until so many "
            "brokers are there."
        ),
    ),
    key(
        "offsets.topic.segment.bytes",
        INT,
        "104857600",
        HIGH,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "Segment size of that topic, kept small so that it is compacted soon and loads fast.",
    ),
    key(
        "offsets.topic.compression.codec",
        INT,
        "0",
        HIGH,
        READ_ONLY,
        ACCEPTED,
        ANYTHING,
        "The codec number of that topic's batches: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    key(
        "offsets.load.buffer.size",
        INT,
        "5242880",
        HIGH,
        READ_ONLY,
        ACCEPTED,
        at_least(1),
        "How many bytes are read at a time when a coordinator loads its groups.",
    ),
    key(
        "offsets.retention.minutes",
        INT,
        "10080",
        HIGH,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "How long the offsets of a group without members are kept.",
    ),
    key(
        "offsets.retention.check.interval.ms",
        LONG,
        "600000",
        HIGH,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "How often expired offsets are looked for.",
    ),
    key(
        "offsets.commit.timeout.ms",
        INT,
        "5000",
        HIGH,
        READ_ONLY,
        ENFORCED,
        at_least(1),
        "How long a commit may wait for its replicas.",
    ),
    key(
        "offset.metadata.max.bytes",
        INT,
        "4096",
        HIGH,
        READ_ONLY,
        ENFORCED,
        ANYTHING,
        "The longest text that may go along with a committed offset.",
    ),
)
