"""Series of the partitions that a broker hosts: summed by topic and over the node in one pass; and by partition, if
there are not too many or if requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final

import trio

from kraft.common.metrics import Family, LabelValues
from kraft.replication.partition import Partition
from kraft.replication.partition_traffic import PastTraffic
from kraft.replication.tiers.partition_tier import PartitionTier
from kraft.server.facts.late_transactions import has_late_transaction
from kraft.server.metrics.topic_sums import TopicSums
from kraft.world.turns import TURN_PARTITIONS

EACH_MAX: Final = 1000
"""Limit of partitions of a broker that are exported one by one by default."""
LATE: Final = (
    "Led partitions whose read_committed consumers wait for a transaction that should have ended five minutes ago."
)
TOPIC: Final = "topic"
PARTITION: Final = "partition"
_LED: Final = "where this broker leads"


class TierSums:
    """Sums over one topic's tiered partitions on this broker."""

    __slots__ = (
        "aux_state_builds",
        "copied_bytes",
        "copies",
        "copy_lag_bytes",
        "copy_lag_segments",
        "copy_wait",
        "delete_lag_bytes",
        "delete_lag_segments",
        "deletes",
        "failed_aux_state_builds",
        "failed_copies",
        "failed_deletes",
        "failed_fetches",
        "fetched_bytes",
        "fetches",
        "metadata_count",
        "put_off",
        "remote_bytes",
    )

    def __init__(self, past: Mapping[str, int]) -> None:
        """`past` has the counts of replicas that this broker no longer has."""
        for name in self.__slots__:
            setattr(self, name, past.get(name, 0))
        self.copy_wait = 0.0

    def add(self, tier: PartitionTier, now: float, *, is_leader: bool) -> None:
        """Add one partition. Gauges are summed only over partitions that this broker leads. `copy_wait` is not summed:
        it is the longest of these partitions."""
        if is_leader:
            self.copy_wait = max(self.copy_wait, tier.copy_wait(now))
        for _, kind, _, name in TIERED:
            if is_leader or kind == "counter":
                setattr(self, name, getattr(self, name) + getattr(tier, name))


_TRAFFIC: Final = "kafka_server_brokertopicmetrics_"
_REPLICAS: Final = "kafka_server_replicamanager_"

BY_TOPIC: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("kafka_topic_partitions", "gauge", "Partitions of a topic that this broker leads.", "led"),
    (
        f"{_TRAFFIC}messagesin_total",
        "counter",
        f"Records appended {_LED}.",
        "messages_in",
    ),
    (f"{_TRAFFIC}bytesin_total", "counter", f"Bytes of batches appended {_LED}.", "bytes_in"),
    (f"{_TRAFFIC}bytesout_total", "counter", "Bytes of batches read for consumers.", "bytes_out"),
    (
        f"{_TRAFFIC}bytesrejected_total",
        "counter",
        "Bytes of batches that were larger than a topic takes.",
        "bytes_rejected",
    ),
    (
        f"{_TRAFFIC}totalproducerequests_total",
        "counter",
        "Partitions that Produce requests have named, by topic.",
        "produces",
    ),
    (
        f"{_TRAFFIC}failedproducerequests_total",
        "counter",
        "Those of them that failed unexpectedly: neither a client's mistake nor a leader that has moved.",
        "failed_produces",
    ),
    (
        f"{_TRAFFIC}totalfetchrequests_total",
        "counter",
        "Partitions that Fetch requests have read, those of followers too, by topic.",
        "fetches",
    ),
    (f"{_TRAFFIC}failedfetchrequests_total", "counter", "Those of them that failed unexpectedly.", "failed_fetches"),
    (
        f"{_TRAFFIC}totalsharefetchrequests_total",
        "counter",
        "Partitions that ShareFetch requests of share groups have read, by topic.",
        "share_fetches",
    ),
    (
        f"{_TRAFFIC}failedsharefetchrequests_total",
        "counter",
        "Those of them that failed unexpectedly.",
        "failed_share_fetches",
    ),
    (
        f"{_TRAFFIC}totalshareacknowledgementrequests_total",
        "counter",
        "Partitions whose records ShareAcknowledge and ShareFetch requests have acknowledged, by topic.",
        "share_acknowledgements",
    ),
    (
        f"{_TRAFFIC}failedshareacknowledgementrequests_total",
        "counter",
        "Those of them that failed unexpectedly.",
        "failed_share_acknowledgements",
    ),
)
"""Families by topic: name, kind, help text, and the name of the sum that is their value."""

TIERED: Final[tuple[tuple[str, str, str, str], ...]] = (
    (f"{_TRAFFIC}remotecopybytes_total", "counter", "Bytes of segments copied to the remote tier.", "copied_bytes"),
    (f"{_TRAFFIC}remotecopyrequests_total", "counter", "Segments whose copy to the remote tier was tried.", "copies"),
    (f"{_TRAFFIC}remotecopyerrors_total", "counter", "Those of them that failed.", "failed_copies"),
    (
        f"{_TRAFFIC}remotefetchbytes_total",
        "counter",
        "Bytes of batches read from the remote tier for consumers.",
        "fetched_bytes",
    ),
    (
        f"{_TRAFFIC}remotefetchrequests_total",
        "counter",
        "Partitions that Fetch requests have read from the remote tier.",
        "fetches",
    ),
    (f"{_TRAFFIC}remotefetcherrors_total", "counter", "Those of them that failed.", "failed_fetches"),
    (
        f"{_TRAFFIC}remotedeleterequests_total",
        "counter",
        "Segments whose deletion from the remote tier was tried.",
        "deletes",
    ),
    (f"{_TRAFFIC}remotedeleteerrors_total", "counter", "Rounds of deletions that failed.", "failed_deletes"),
    (
        f"{_TRAFFIC}buildremotelogauxstaterequests_total",
        "counter",
        "Times that a follower asked the remote tier where it begins.",
        "aux_state_builds",
    ),
    (
        f"{_TRAFFIC}buildremotelogauxstateerrors_total",
        "counter",
        "Those of them that failed.",
        "failed_aux_state_builds",
    ),
    (
        f"{_TRAFFIC}remotecopylagbytes",
        "gauge",
        f"Bytes of closed segments that lie on the disk alone, {_LED}.",
        "copy_lag_bytes",
    ),
    (
        f"{_TRAFFIC}remotecopylagsegments",
        "gauge",
        f"Closed segments that lie on the disk alone, {_LED}.",
        "copy_lag_segments",
    ),
    (
        f"{_TRAFFIC}remotedeletelagbytes",
        "gauge",
        f"Bytes of segments that are to leave the remote tier, {_LED}.",
        "delete_lag_bytes",
    ),
    (
        f"{_TRAFFIC}remotedeletelagsegments",
        "gauge",
        f"Segments that are to leave the remote tier, {_LED}.",
        "delete_lag_segments",
    ),
    (f"{_TRAFFIC}remotelogsizebytes", "gauge", f"Bytes of segments in the remote tier, {_LED}.", "remote_bytes"),
    (
        f"{_TRAFFIC}remotelogmetadatacount",
        "gauge",
        f"Segments that __remote_log_metadata knows, {_LED}.",
        "metadata_count",
    ),
    (
        "kraft_remote_put_off_partitions",
        "gauge",
        f"Partitions whose last round with the remote tier was put off, {_LED}.",
        "put_off",
    ),
)
"""Families by tiered topic: name, kind, help text, and the attribute of `PartitionTier` that is summed. Gauges have the
state after the last round of each partition."""

COPY_WAIT: Final = (
    "kraft_remote_copy_wait_seconds",
    "How long the segment that is to be copied next has been that, in the partition led here where it is longest.",
)

OF_NODE: Final[tuple[tuple[str, str, str, str], ...]] = (
    (f"{_TRAFFIC}replicationbytesin_total", "counter", "Bytes of batches copied from leaders.", "replication_bytes_in"),
    (
        f"{_TRAFFIC}replicationbytesout_total",
        "counter",
        "Bytes of batches read for followers.",
        "replication_bytes_out",
    ),
    (
        f"{_REPLICAS}isrshrinks_total",
        "counter",
        "In-sync sets that became smaller on this leader's proposal.",
        "isr_shrinks",
    ),
    (
        f"{_REPLICAS}isrexpands_total",
        "counter",
        "In-sync sets that became larger on this leader's proposal.",
        "isr_expands",
    ),
    (f"{_REPLICAS}leadercount", "gauge", "Partitions that this broker leads.", "led"),
    (f"{_REPLICAS}partitioncount", "gauge", "Partitions that this broker hosts.", "partitions"),
    (
        f"{_REPLICAS}underreplicatedpartitions",
        "gauge",
        "Led partitions with a replica that is not in sync.",
        "under_replicated",
    ),
    (f"{_REPLICAS}underminisrpartitioncount", "gauge", "Led partitions below min.insync.replicas.", "under_min_isr"),
    (f"{_REPLICAS}atminisrpartitioncount", "gauge", "Led partitions at min.insync.replicas.", "at_min_isr"),
)
"""Families of the node, summed over all topics."""

EACH: Final[tuple[tuple[str, str, bool, Callable[[Partition], float], str], ...]] = (
    ("kafka_log_log_size", "Bytes of the log here.", False, attrgetter("log.size"), "size"),
    (
        "kafka_log_log_numlogsegments",
        "Segments of the log here.",
        False,
        lambda each: len(each.log.segments),
        "segments",
    ),
    ("kafka_log_log_logstartoffset", "First offset of the log here.", False, attrgetter("log.log_start_offset"), ""),
    ("kafka_log_log_logendoffset", "Next offset of the log here.", False, attrgetter("log.log_end_offset"), ""),
    (
        "kafka_topic_partition_current_offset",
        "End of what consumers may read",
        True,
        attrgetter("log.high_watermark"),
        "current_offset",
    ),
    ("kafka_topic_partition_oldest_offset", "First offset", True, attrgetter("log.log_start_offset"), "oldest_offset"),
    ("kafka_topic_partition_leader", "The broker that leads, where it is this one.", True, attrgetter("leader_id"), ""),
    ("kafka_topic_partition_replicas", "Replicas", True, lambda each: len(each.replicas), "replicas"),
    ("kafka_topic_partition_in_sync_replica", "Replicas in sync", True, lambda each: len(each.isr), "in_sync"),
    (
        "kafka_topic_partition_under_replicated_partition",
        "1 when a replica is not in sync",
        True,
        lambda each: len(each.isr) < len(each.replicas),
        "under_replicated",
    ),
    (
        "kafka_topic_partition_leader_is_preferred",
        "1 when the first replica leads",
        True,
        lambda each: each.replicas[:1] == (each.leader_id,),
        "preferred",
    ),
    (
        "kafka_cluster_partition_underreplicated",
        "1 when a replica is not in sync",
        True,
        lambda each: len(each.isr) < len(each.replicas),
        "under_replicated",
    ),
    (
        "kafka_cluster_partition_underminisr",
        "1 when fewer are in sync than min.insync.replicas",
        True,
        lambda each: len(each.isr) < each.min_isr,
        "under_min_isr",
    ),
    (
        "kafka_cluster_partition_atminisr",
        "1 when as many are in sync as min.insync.replicas",
        True,
        lambda each: len(each.isr) == each.min_isr,
        "at_min_isr",
    ),
    ("kafka_cluster_partition_replicascount", "Replicas", True, lambda each: len(each.replicas), "replicas"),
)
"""Name, help text, whether only the leader exports it, the value of one partition, and the sum that replaces it in the
form by topic (None: left out there)."""


class PartitionSums:
    """The sums of one pass over the partitions that this broker hosts."""

    __slots__ = ("late", "partitions", "past", "tiers", "topics")

    def __init__(self, partitions: list[Partition]) -> None:
        self.partitions = partitions
        self.past = TopicSums()
        """Values of topics without replicas on this broker."""
        self.topics: dict[str, TopicSums] = {}
        self.tiers: dict[str, TierSums] = {}
        self.late = 0

    @property
    def is_large(self) -> bool:
        """Whether there are too many partitions to show each."""
        return len(self.partitions) > EACH_MAX


async def sum_partitions(hosted: Iterable[Partition], past: PastTraffic, late_ms: int, now: float) -> PartitionSums:
    """Sum up the partitions. A transaction whose producer's last write was before `late_ms` is late; `now` is of the
    monotonic clock. Yields after every slice."""
    found = PartitionSums(list(hosted))
    # As of the same moment: none counts twice that leaves in a pause.
    (past_of_topics, past_of_others), past_tiers = past.now(), past.tiers()
    found.past.add_past(past_of_others)
    for start in range(0, len(found.partitions), TURN_PARTITIONS):
        for topic, each in groupby(found.partitions[start : start + TURN_PARTITIONS], key=attrgetter("topic")):
            partitions = list(each)
            sums = found.topics.get(topic)
            if sums is None:
                sums = found.topics[topic] = TopicSums()
                if (of_topic := past_of_topics.get(topic)) is not None:
                    sums.add_past(of_topic)
            sums.add(partitions)
            for partition in partitions:
                tier = partition.tier
                if tier is not None:
                    if topic not in found.tiers:
                        found.tiers[topic] = TierSums(past_tiers.get(topic, {}))
                    found.tiers[topic].add(tier, now, is_leader=partition.is_leader)
                found.late += has_late_transaction(partition, late_ms)
        await trio.lowlevel.checkpoint()
    return found


async def partition_families(found: PartitionSums, by: str | None) -> list[Family]:
    """The families of partitions. `by` says whether they are shown by partition or by topic; None chooses by their
    number. Yields after every slice."""
    node, named = TopicSums(), sorted(found.topics.items())
    for _, sums in named:
        node.take(sums)
    node.take(found.past)
    families = [_family(name, kind, text, (), [((), getattr(node, sum_))]) for name, kind, text, sum_ in OF_NODE]
    families.append(_family(f"{_REPLICAS}partitionswithlatetransactionscount", "gauge", LATE, (), [((), found.late)]))
    for name, kind, text, sum_ in BY_TOPIC:
        families.append(_family(name, kind, text, (TOPIC,), [((topic,), getattr(s, sum_)) for topic, s in named]))
        await trio.lowlevel.checkpoint()
    families += await _tier_families(sorted(found.tiers.items()))
    shows_each = by == PARTITION or (by is None and not found.is_large)
    for name, text, is_of_leader, read, sum_ in EACH:
        help_text = text if text.endswith(".") else f"{text}, {_LED}."
        if shows_each:
            family = Family(name, "gauge", help_text, (TOPIC, PARTITION))
            family.read = partial(_each, found.partitions, is_of_leader=is_of_leader, read=read)
            families.append(family)
        elif sum_:
            series = [((topic,), getattr(sums, sum_)) for topic, sums in named]
            families.append(_family(name, "gauge", f"{help_text} Summed by topic.", (TOPIC,), series))
            await trio.lowlevel.checkpoint()
    return families


async def _tier_families(tiers: list[tuple[str, TierSums]]) -> list[Family]:
    """The families of tiered storage; none if no partition is tiered."""
    families: list[Family] = []
    if not tiers:
        return families
    for name, kind, text, sum_ in TIERED:
        families.append(_family(name, kind, text, (TOPIC,), [((topic,), getattr(sums, sum_)) for topic, sums in tiers]))
        await trio.lowlevel.checkpoint()
    name, text = COPY_WAIT
    families.append(_family(name, "gauge", text, (TOPIC,), [((topic,), sums.copy_wait) for topic, sums in tiers]))
    return families


def _each(
    partitions: list[Partition], *, is_of_leader: bool, read: Callable[[Partition], float]
) -> Iterator[tuple[LabelValues, float]]:
    """The value of each partition, read as it is written: a million pairs in memory would be a long step for the
    garbage collector."""
    for partition in partitions:
        if partition.is_leader or not is_of_leader:
            yield (partition.topic, str(partition.index)), int(read(partition))


def _family(
    name: str, kind: str, help_text: str, labels: tuple[str, ...], series: Sequence[tuple[LabelValues, float]]
) -> Family:
    family = Family(name, kind, help_text, labels)
    family.read = series.__iter__
    return family
