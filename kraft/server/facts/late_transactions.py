"""Transactions that have been open for longer than the maximum timeout: no coordinator will complete them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraft.replication.partition import Partition
    from kraft.server.node import Node

LATE_TRANSACTION_MS: Final = 300_000
"""A transaction is late if it exceeds its limit by this time, as in Kafka."""


def late_ms(node: Node) -> int:
    """The time in ms since 1970 before which a producer's last write makes its open transaction late."""
    longest_ms = node.config.integer("transaction.max.timeout.ms")
    return node.world.clock.wall_ms() - longest_ms - LATE_TRANSACTION_MS


def has_late_transaction(partition: Partition, before_ms: int) -> bool:
    """Whether this broker leads the partition, and the partition has a transaction that is late by `late_ms`."""
    if not (partition.log.has_producers and partition.is_leader):
        return False
    oldest_ms = partition.log.producers.oldest_transaction_ms
    return oldest_ms is not None and oldest_ms < before_ms


def late_partitions(node: Node, replicas: Iterable[Partition]) -> list[str]:
    """The partitions (`topic-0`) led here in which a late transaction blocks readers of committed records."""
    before_ms = late_ms(node)
    return sorted(str(partition) for partition in replicas if has_late_transaction(partition, before_ms))
