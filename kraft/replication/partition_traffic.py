"""What has gone into and out of one replica since it is here: plain integers, added to on the data path, read at a
scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft.replication.tiers.partition_tier import COUNTERS

if TYPE_CHECKING:
    from kraft.replication.tiers.partition_tier import PartitionTier

CONSUMERS: Final = False
FOLLOWERS: Final = True


class PartitionTraffic:
    """Bytes are those of record batches as they are stored. `bytes_out` is indexed by CONSUMERS and FOLLOWERS, and
    counts what was read to be sent.

    Requests count each partition that they name. As in Kafka only what should not happen is a failure: not a client's
    mistake, nor a leader that has moved. `bytes_rejected` are batches that were too large.

    `messages_in` are the records that were appended while this replica led, up to the end of its last term; `led_from`
    is where its present one began.

    `isr_shrinks` and `isr_expands` count decisions of the controller on what this leader proposed.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "isr_expands",
        "isr_shrinks",
        "led_from",
        "messages_in",
        "produces",
        "replication_bytes_in",
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
        self.messages_in = 0
        self.led_from = 0
        self.isr_shrinks = 0
        self.isr_expands = 0

    def isr_changed(self, before: int, after: int) -> None:
        """The in-sync set went from so many members to so many."""
        if after < before:
            self.isr_shrinks += 1
        elif after > before:
            self.isr_expands += 1

    def add(self, other: PartitionTraffic) -> None:
        """Count what `other` has counted, too."""
        self.bytes_in += other.bytes_in
        self.bytes_out = [mine + theirs for mine, theirs in zip(self.bytes_out, other.bytes_out, strict=True)]
        self.bytes_rejected += other.bytes_rejected
        self.replication_bytes_in += other.replication_bytes_in
        self.produces += other.produces
        self.failed_produces += other.failed_produces
        self.fetches += other.fetches
        self.failed_fetches += other.failed_fetches
        self.messages_in += other.messages_in
        self.isr_shrinks += other.isr_shrinks
        self.isr_expands += other.isr_expands


class PastTraffic:
    """What replicas have counted that are not here any more: the counters of their topics and of the node do not fall
    as they leave. That of a topic is kept by its name while another replica of it is here; a topic that comes again
    begins at 0."""

    def __init__(self) -> None:
        self._hosted: dict[str, int] = {}
        self._of_topics: dict[str, PartitionTraffic] = {}
        self._of_tiers: dict[str, dict[str, int]] = {}
        self._of_others = PartitionTraffic()

    def came(self, topic: str) -> None:
        """A replica of the topic is here from now on."""
        self._hosted[topic] = self._hosted.get(topic, 0) + 1

    def left(self, topic: str, traffic: PartitionTraffic, tier: PartitionTier | None) -> None:
        """A replica of the topic that had come is not here any more."""
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
        """By topic that is here, and of all others together, as it does not change any more."""
        others = PartitionTraffic()
        others.add(self._of_others)
        return dict(self._of_topics), others

    def tiers(self) -> dict[str, dict[str, int]]:
        """The counters of `PartitionTier`, by tiered topic that is here."""
        return dict(self._of_tiers)
