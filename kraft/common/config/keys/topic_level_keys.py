"""Keys of a topic (resource type TOPIC)."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, BOOLEAN, CLUSTER_WIDE, DOUBLE, ENFORCED, INT, LIST, LONG, MEDIUM, REFUSED, STRING
from kraft.common.config.validators import ANYTHING, GZIP_LEVEL, THROTTLED_REPLICAS, at_least, between, list_of, one_of
from kraft.common.recovery_strategy import RECOVERY_STRATEGIES

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("cleanup.policy", LIST, "delete", MEDIUM, CLUSTER_WIDE, ENFORCED, list_of("compact", "delete"),
        "What happens to old records: delete removes old segments, compact keeps the last record of every key, both do both, and an empty list keeps all."),
    key("compression.type", STRING, "producer", MEDIUM, CLUSTER_WIDE, ENFORCED, one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "The codec that batches are stored with: producer keeps what came, uncompressed undoes it, a codec forces its own."),
    key("compression.gzip.level", INT, "-1", MEDIUM, CLUSTER_WIDE, ENFORCED, GZIP_LEVEL, "How hard gzip works when the broker compresses."),
    key("compression.lz4.level", INT, "9", MEDIUM, CLUSTER_WIDE, ENFORCED, between(1, 17), "How hard lz4 works when the broker compresses."),
    key("compression.zstd.level", INT, "3", MEDIUM, CLUSTER_WIDE, ENFORCED, between(-131_072, 22), "How hard zstd works when the broker compresses."),
    key("delete.retention.ms", LONG, "86400000", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "How long the tombstone of a deleted key stays readable in a compacted topic."),
    key("file.delete.delay.ms", LONG, "60000", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "How long a removed segment stays on disk under another name, for reads that still run."),
    key("flush.messages", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(1),
        "The log is flushed to disk after so many records. Replication, not flushing, is what protects data by default."),
    key("flush.ms", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0), "A record is flushed to disk at the latest after this time."),
    key("follower.replication.throttled.replicas", LIST, "", MEDIUM, CLUSTER_WIDE, ENFORCED, THROTTLED_REPLICAS,
        "Replicas whose fetching is throttled, as partition:broker pairs or *."),
    key("leader.replication.throttled.replicas", LIST, "", MEDIUM, CLUSTER_WIDE, ENFORCED, THROTTLED_REPLICAS,
        "Replicas whose serving is throttled, as partition:broker pairs or *."),
    key("index.interval.bytes", INT, "4096", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "About how many bytes of records lie between two index entries. Smaller values find offsets faster and cost larger indexes."),
    key("local.retention.bytes", LONG, "-2", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(-2),
        "How many bytes of a tiered partition stay on the local disk; -2 follows retention.bytes. Tiered storage is not there."),
    key("local.retention.ms", LONG, "-2", MEDIUM, CLUSTER_WIDE, REFUSED, at_least(-2),
        "How long tiered segments stay on the local disk; -2 follows retention.ms. Tiered storage is not there."),
    key("max.compaction.lag.ms", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(1),
        "A record stays uncompacted for at most this time."),
    key("max.message.bytes", INT, "1048588", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "The largest record batch that is taken, as it comes over the wire (compressed)."),
    key("message.timestamp.after.max.ms", LONG, "3600000", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "How far in the future a producer's timestamp may lie."),
    key("message.timestamp.before.max.ms", LONG, "9223372036854775807", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "How far in the past a producer's timestamp may lie."),
    key("message.timestamp.type", STRING, "CreateTime", MEDIUM, CLUSTER_WIDE, ENFORCED, one_of("CreateTime", "LogAppendTime"),
        "Whether a record keeps the time its producer gave it or gets the time of its append."),
    key("min.cleanable.dirty.ratio", DOUBLE, "0.5", MEDIUM, CLUSTER_WIDE, ENFORCED, between(0, 1),
        "How much of the log must be uncompacted before it is compacted, as a share of its bytes."),
    key("min.compaction.lag.ms", LONG, "0", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0), "A record stays uncompacted for at least this time."),
    key("min.insync.replicas", INT, "1", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(1),
        "How many replicas must be in sync before a write with acks=all is taken."),
    key("preallocate", BOOLEAN, "false", MEDIUM, CLUSTER_WIDE, ACCEPTED, ANYTHING,
        "Reserves the space of a new segment when it is made. Segments here always grow as they are written."),
    key("remote.log.copy.disable", BOOLEAN, "false", MEDIUM, CLUSTER_WIDE, REFUSED, ANYTHING,
        "Stops copying segments to remote storage. Tiered storage is not there."),
    key("remote.log.delete.on.disable", BOOLEAN, "false", MEDIUM, CLUSTER_WIDE, REFUSED, ANYTHING,
        "Removes remote data when tiering is switched off. Tiered storage is not there."),
    key("remote.storage.enable", BOOLEAN, "false", MEDIUM, CLUSTER_WIDE, REFUSED, ANYTHING,
        "Moves old segments to remote storage. Tiered storage is not there."),
    key("retention.bytes", LONG, "-1", MEDIUM, CLUSTER_WIDE, ENFORCED, ANYTHING,
        "How large a partition may grow before its oldest segments go; -1 is without limit."),
    key("retention.ms", LONG, "604800000", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(-1),
        "How long records are kept before their segment may go; -1 is for ever."),
    key("segment.bytes", INT, "1073741824", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(1_048_576), "The size at which the log starts a new segment."),
    key("segment.index.bytes", INT, "10485760", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(4),
        "The most bytes that one offset or time index may take; a full index makes the log roll."),
    key("segment.jitter.ms", LONG, "0", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(0),
        "The most that is taken off at random from segment.ms, so that logs do not all roll together."),
    key("segment.ms", LONG, "604800000", MEDIUM, CLUSTER_WIDE, ENFORCED, at_least(1), "The age at which the log starts a new segment."),
    key("unclean.leader.election.enable", BOOLEAN, "false", MEDIUM, CLUSTER_WIDE, ENFORCED, ANYTHING,
        "Whether a replica that was not in sync may become leader when no other is left. Acknowledged records may then be lost."),
    key("kraft.unclean.recovery.strategy", STRING, "none", MEDIUM, CLUSTER_WIDE, ENFORCED, one_of(*RECOVERY_STRATEGIES),
        "Who leads when nobody who may is left. balanced: of the replicas that still run the one with the longest log, once each of the last known ones has "
        "answered, is dead, or has been waited for; aggressive: the same without waiting. Both replace unclean.leader.election.enable; none leaves it "
        "to that key. Acknowledged records may be lost."),
    key("internal.segment.bytes", INT, None, MEDIUM, CLUSTER_WIDE, ENFORCED, ANYTHING,
        "The size of a segment without the lower bound, for tests.", internal=True),
)
