"""Broker keys. The metadata quorum: Raft's timing, its log and its snapshots."""

from __future__ import annotations

from typing import Final

from kraft.common.config.definition import ConfigKey, key
from kraft.common.config.keys.words import ACCEPTED, BOOLEAN, ENFORCED, HIGH, INT, LIST, LONG, LOW, MEDIUM, READ_ONLY, REFUSED, STRING
from kraft.common.config.validators import ADDRESSES, ANYTHING, VOTERS, at_least

KEYS: Final[tuple[ConfigKey, ...]] = (
    key("controller.quorum.voters", LIST, "", HIGH, READ_ONLY, ENFORCED, VOTERS,
        "The members of a static quorum, as id@host:port. Leave it empty for a quorum whose members can change."),
    key("controller.quorum.bootstrap.servers", LIST, "", HIGH, READ_ONLY, ENFORCED, ADDRESSES,
        "Addresses of controllers at which a node first looks for the quorum. A broker without a controller role needs this or controller.quorum.voters."),
    key("controller.quorum.auto.join.enable", BOOLEAN, "false", LOW, READ_ONLY, REFUSED, ANYTHING,
        "Lets a controller add itself to the voters when it starts. Voters are added by an administrator so far."),
    key("controller.quorum.election.timeout.ms", INT, "1000", HIGH, READ_ONLY, ENFORCED, at_least(0),
        "How long a follower waits for the leader before it asks for votes; each wait is drawn between this and twice this."),
    key("controller.quorum.election.backoff.max.ms", INT, "1000", HIGH, READ_ONLY, ENFORCED, at_least(0),
        "The longest random pause between two lost elections."),
    key("controller.quorum.fetch.timeout.ms", INT, "2000", HIGH, READ_ONLY, ENFORCED, at_least(0),
        "A follower that could not fetch for so long becomes a candidate; a leader that heard from no majority for so long resigns."),
    key("controller.quorum.request.timeout.ms", INT, "2000", MEDIUM, READ_ONLY, ENFORCED, at_least(0), "How long a request between quorum members may take."),
    key("controller.quorum.retry.backoff.ms", INT, "20", LOW, READ_ONLY, ENFORCED, at_least(0),
        "Pause before a failed request between quorum members is sent again."),
    key("controller.quorum.append.linger.ms", INT, "25", MEDIUM, READ_ONLY, ACCEPTED, at_least(0),
        "How long the leader may collect metadata records before it writes them. Waiting records are written together with one flush."),
    key("controller.quorum.fetch.max.bytes", INT, "1048576", LOW, READ_ONLY, ACCEPTED, at_least(1), "The most bytes that one metadata fetch returns."),
    key("controller.quorum.fetch.snapshot.max.bytes", INT, "1048576", LOW, READ_ONLY, ACCEPTED, at_least(1),
        "The most bytes of a snapshot that one request returns."),
    key("controller.socket.timeout.ms", INT, "30000", MEDIUM, READ_ONLY, ACCEPTED, ANYTHING,
        "How long a request from a broker to a controller may take. Requests here are bounded by request.timeout.ms."),
    key("controller.performance.sample.period.ms", LONG, "60000", MEDIUM, READ_ONLY, ACCEPTED, at_least(100),
        "How often the controller sums up how long its operations take.", internal=True),
    key("controller.performance.always.log.threshold.ms", LONG, "2000", MEDIUM, READ_ONLY, ACCEPTED, at_least(0),
        "Controller operations slower than this are always logged.", internal=True),
    key("metadata.log.dir", STRING, None, HIGH, READ_ONLY, ENFORCED, ANYTHING, "The directory of the metadata log. Unset, it lies in the first of log.dirs."),
    key("metadata.log.segment.bytes", INT, "1073741824", HIGH, READ_ONLY, ENFORCED, at_least(8_388_608),
        "The size at which the metadata log starts a new segment."),
    key("metadata.log.segment.ms", LONG, "604800000", HIGH, READ_ONLY, ACCEPTED, ANYTHING, "The age at which the metadata log starts a new segment."),
    key("metadata.log.max.record.bytes.between.snapshots", LONG, "20971520", HIGH, READ_ONLY, ENFORCED, at_least(1),
        "After so many bytes of metadata records a snapshot is written."),
    key("metadata.log.max.snapshot.interval.ms", LONG, "3600000", HIGH, READ_ONLY, ENFORCED, at_least(0),
        "The longest time between two snapshots when there are new records; 0 switches the clock off."),
    key("metadata.max.idle.interval.ms", INT, "500", LOW, READ_ONLY, ENFORCED, at_least(0),
        "How often an idle active controller writes an empty record, so that everybody sees the log move; 0 never."),
    key("metadata.max.retention.bytes", LONG, "104857600", HIGH, READ_ONLY, ENFORCED, ANYTHING,
        "How many bytes of old metadata log and snapshots are kept; the newest snapshot always stays."),
    key("metadata.max.retention.ms", LONG, "604800000", HIGH, READ_ONLY, ENFORCED, ANYTHING,
        "How long old metadata log and snapshots are kept; the newest snapshot always stays."),
    key("internal.metadata.log.segment.bytes", INT, None, LOW, READ_ONLY, ACCEPTED, ANYTHING,
        "The size of a metadata log segment without the lower bound, for tests.", internal=True),
    key("internal.metadata.max.batch.size.in.bytes", INT, "8388608", LOW, READ_ONLY, ACCEPTED, ANYTHING,
        "The largest batch that the metadata log takes.", internal=True),
    key("internal.metadata.delete.delay.millis", LONG, "60000", LOW, READ_ONLY, ACCEPTED, ANYTHING,
        "How long a replaced metadata file stays on disk before it is removed.", internal=True),
)
