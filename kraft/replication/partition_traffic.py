"""Traffic counters of one replica since it was created on this broker. They are plain integers, incremented on the data
path and read by a metrics scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft.replication.tiers.partition_tier import COUNTERS

if TYPE_CHECKING:
    from kraft.replication.tiers.partition_tier import PartitionTier

CONSUMERS: Final = False
FOLLOWERS: Final = True


class PartitionTraffic:
    """The traffic counters of one replica.

    Bytes are those of record batches as stored. `bytes_out` is indexed by CONSUMERS and FOLLOWERS, and counts the bytes
    read for sending. `bytes_rejected` counts batches that were too large.

    A request counts once for each partition that it names. As in Kafka, a client error or a moved leader is not counted
    as a failure.

    `messages_in` are the records appended while this replica led, up to the end of its last term. `led_from` is the log
    end offset at the start of the current term.

    `isr_shrinks` and `isr_expands` count the controller's decisions on this leader's proposals.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "failed_share_acknowledgements",
        "failed_share_fetches",
        "fetches",
        "isr_expands",
        "isr_shrinks",
        "led_from",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "share_acknowledgements",
        "share_fetches",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = [0, 0]
        self.bytes_rejected = 0
        self.replication_bytes_in = 0
        self.produces = 0
        self.failed_produces = 0
        self.fetches = 0
        self.failed_fetches = 0
        self.share_fetches = 0
        self.failed_share_fetches = 0
        self.share_acknowledgements = 0
        self.failed_share_acknowledgements = 0
        self.messages_in = 0
        self.led_from = 0
        self.isr_shrinks = 0
        self.isr_expands = 0

    def isr_changed(self, before: int, after: int) -> None:
        """Count a change of the in-sync replica set from `before` to `after` members."""
        if after < before:
            self.isr_shrinks += 1
        elif after > before:
            self.isr_expands += 1

    def add(self, other: PartitionTraffic) -> None:
        """Add the counters of `other`."""
        self.bytes_in += other.bytes_in
        self.bytes_out = [mine + theirs for mine, theirs in zip(self.bytes_out, other.bytes_out, strict=True)]
        self.bytes_rejected += other.bytes_rejected
        self.replication_bytes_in += other.replication_bytes_in
        self.produces += other.produces
        self.failed_produces += other.failed_produces
        self.fetches += other.fetches
        self.failed_fetches += other.failed_fetches
        self.share_fetches += other.share_fetches
        self.failed_share_fetches += other.failed_share_fetches
        self.share_acknowledgements += other.share_acknowledgements
        self.failed_share_acknowledgements += other.failed_share_acknowledgements
        self.messages_in += other.messages_in
        self.isr_shrinks += other.isr_shrinks
        self.isr_expands += other.isr_expands


class PastTraffic:
    """The counters of replicas that left this broker. They keep the sums of a topic and of the node from falling.

    They are kept by topic name while another replica of the topic is on this broker. A topic that returns to this
    broker starts at 0.
    """

    def __init__(self) -> None:
        self._hosted: dict[str, int] = {}
        self._of_topics: dict[str, PartitionTraffic] = {}
        self._of_tiers: dict[str, dict[str, int]] = {}
        self._of_others = PartitionTraffic()

    def came(self, topic: str) -> None:
        """Record that a replica of the topic was created on this broker."""
        self._hosted[topic] = self._hosted.get(topic, 0) + 1

    def left(self, topic: str, traffic: PartitionTraffic, tier: PartitionTier | None) -> None:
        """Add the counters of a replica that left this broker."""
        self._hosted[topic] -= 1
        past = PartitionTraffic()
        past.add(traffic)
        if (earlier := self._of_topics.pop(topic, None)) is not None:
            past.add(earlier)
        if self._hosted[topic]:
            self._of_topics[topic] = past
            if tier is not None:
                counted = self._of_tiers.get(topic, {})
                self._of_tiers[topic] = {name: counted.get(name, 0) + getattr(tier, name) for name in COUNTERS}
        else:
            self._of_tiers.pop(topic, None)
            del self._hosted[topic]
            self._of_others.add(past)

    def now(self) -> tuple[dict[str, PartitionTraffic], PartitionTraffic]:
        """The counters of removed replicas: by topic while the topic is on this broker, and the sum of the rest."""
        others = PartitionTraffic()
        others.add(self._of_others)
        return dict(self._of_topics), others

    def tiers(self) -> dict[str, dict[str, int]]:
        """The `PartitionTier` counters of removed replicas, by topic, for tiered topics still on this broker."""
        return dict(self._of_tiers)
