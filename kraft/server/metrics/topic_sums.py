"""Sums over the partitions of one topic that a broker hosts, for its metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kraft.replication.partition_traffic import CONSUMERS, FOLLOWERS, PartitionTraffic

if TYPE_CHECKING:
    from kraft.replication.partition import Partition


class TopicSums:
    """Sums over the partitions of one topic on this broker, or of all topics."""

    __slots__ = (
        "at_min_isr",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "current_offset",
        "failed_fetches",
        "failed_produces",
        "failed_share_acknowledgements",
        "failed_share_fetches",
        "fetches",
        "in_sync",
        "isr_expands",
        "isr_shrinks",
        "led",
        "messages_in",
        "oldest_offset",
        "partitions",
        "preferred",
        "produces",
        "replicas",
        "replication_bytes_in",
        "replication_bytes_out",
        "segments",
        "share_acknowledgements",
        "share_fetches",
        "size",
        "under_min_isr",
        "under_replicated",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    at_min_isr: int
    bytes_in: int
    bytes_out: int
    bytes_rejected: int
    current_offset: int
    failed_fetches: int
    failed_produces: int
    failed_share_acknowledgements: int
    failed_share_fetches: int
    fetches: int
    in_sync: int
    isr_expands: int
    isr_shrinks: int
    led: int
    messages_in: int
    oldest_offset: int
    partitions: int
    preferred: int
    produces: int
    replicas: int
    replication_bytes_in: int
    replication_bytes_out: int
    segments: int
    share_acknowledgements: int
    share_fetches: int
    size: int
    under_min_isr: int
    under_replicated: int

    def add(self, partitions: Sequence[Partition]) -> None:
        """Add the partitions of one topic. A scrape calls this for every partition of the node, so sums are kept in
        local variables, which takes half as long."""
        self._add_traffic([partition.traffic for partition in partitions])
        self._add_led([partition for partition in partitions if partition.is_leader])
        size = segments = messages_in = 0
        for partition in partitions:
            messages_in += partition.messages_in
            size += partition.log.size
            segments += len(partition.log.segments)
        self.messages_in += messages_in
        self.size += size
        self.segments += segments
        self.partitions += len(partitions)

    def add_past(self, traffic: PartitionTraffic) -> None:
        """Add the counts of replicas that this broker no longer has."""
        self._add_traffic([traffic])
        self.messages_in += traffic.messages_in

    def _add_traffic(self, replicas: Sequence[PartitionTraffic]) -> None:
        bytes_in = bytes_out = replication_in = replication_out = rejected = 0
        produces = failed_produces = fetches = failed_fetches = shrinks = expands = 0
        share_fetches = failed_share_fetches = share_acknowledgements = failed_share_acknowledgements = 0
        for traffic in replicas:
            bytes_in += traffic.bytes_in
            bytes_out += traffic.bytes_out[CONSUMERS]
            replication_in += traffic.replication_bytes_in
            replication_out += traffic.bytes_out[FOLLOWERS]
            rejected += traffic.bytes_rejected
            produces += traffic.produces
            failed_produces += traffic.failed_produces
            fetches += traffic.fetches
            failed_fetches += traffic.failed_fetches
            share_fetches += traffic.share_fetches
            failed_share_fetches += traffic.failed_share_fetches
            share_acknowledgements += traffic.share_acknowledgements
            failed_share_acknowledgements += traffic.failed_share_acknowledgements
            shrinks += traffic.isr_shrinks
            expands += traffic.isr_expands
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out
        self.replication_bytes_in += replication_in
        self.replication_bytes_out += replication_out
        self.bytes_rejected += rejected
        self.produces += produces
        self.failed_produces += failed_produces
        self.fetches += fetches
        self.failed_fetches += failed_fetches
        self.share_fetches += share_fetches
        self.failed_share_fetches += failed_share_fetches
        self.share_acknowledgements += share_acknowledgements
        self.failed_share_acknowledgements += failed_share_acknowledgements
        self.isr_shrinks += shrinks
        self.isr_expands += expands

    def _add_led(self, partitions: Sequence[Partition]) -> None:
        replicas = in_sync = under_replicated = under_min_isr = at_min_isr = preferred = 0
        current_offset = oldest_offset = 0
        for partition in partitions:
            log, assigned, present = partition.log, len(partition.replicas), len(partition.isr)
            replicas += assigned
            in_sync += present
            under_replicated += present < assigned
            under_min_isr += present < partition.min_isr
            at_min_isr += present == partition.min_isr
            preferred += partition.replicas[:1] == (partition.leader_id,)
            current_offset += log.high_watermark
            oldest_offset += log.log_start_offset
        self.led += len(partitions)
        self.replicas += replicas
        self.in_sync += in_sync
        self.under_replicated += under_replicated
        self.under_min_isr += under_min_isr
        self.at_min_isr += at_min_isr
        self.preferred += preferred
        self.current_offset += current_offset
        self.oldest_offset += oldest_offset

    def take(self, other: TopicSums) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
