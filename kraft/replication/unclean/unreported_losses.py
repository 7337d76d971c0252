"""Losses to report to the active controller: which ones count, in which order they are reported, and when one can be
dropped. Pure.

A truncation counts as a loss if its records are older than an election that the metadata reports, and if it happens
under that election's leader or a later one. Any other truncation removes only records that were never acknowledged.

A loss is recorded before the log is truncated, so it survives a crash in between. It is reported once the log shows
that the truncation happened. A loss that will never happen, because the partition has its records again, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kraft.common.config.dynamic.loss_reports import (
    Loss,
    Report,
    UnreportedLoss,
    keys_by_partition,
    loss_key,
    report_of_loss,
    reports_of,
)
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.partition_registration import PartitionRegistration

UNTOLD_MAX: Final = 10_000
"""Limit over all log directories. Beyond it the oldest loss is dropped and only logged."""
TOLD_AT_ONCE_MAX: Final = 500


Key = tuple[str, bytes, int, int, int]
"""Log directory, topic id, partition, epoch of the first record, leader epoch. Losses with the same key become one:
a log is truncated in steps."""


class Entry(NamedTuple):
    """A loss, and the log directory whose file keeps it."""

    directory: str
    loss: UnreportedLoss

    @property
    def key(self) -> Key:
        untold = self.loss
        return (self.directory, untold.topic_id, untold.partition, untold.first_epoch, untold.loss.leader_epoch)


class Telling(NamedTuple):
    """The next change to send to the controller: set `losses`, by topic and key, for the entries in `told`. The entries
    in `dropped` match no election report and are discarded."""

    losses: dict[str, dict[str, Loss]]
    told: Sequence[Entry]
    dropped: Sequence[Entry]


class UnreportedLosses:
    """The losses of one broker that are not yet reported, oldest first. `replica_id` is the broker's id."""

    def __init__(self, replica_id: int) -> None:
        self._replica_id = replica_id
        self._entries: dict[Key, Entry] = {}
        self._expected: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def may_count(self, image: MetadataImage, untold: UnreportedLoss) -> bool:
        """Whether an expected loss must be recorded: it belongs to a report, or may belong to one in a newer image."""
        return (
            _is_ahead(image, untold)
            or self._report(image, keys_by_partition(image.configs.topic(untold.topic).items()), untold) is not None
        )

    def note(self, directory: str, untold: UnreportedLoss) -> None:
        """Record a loss that is about to happen, or was about to when the last run ended. Truncations of one epoch's
        records under one leader are merged into one loss."""
        entry = Entry(directory, untold)
        key, known = entry.key, self._entries.get(entry.key)
        self._entries[key] = (
            entry if known is None else Entry(directory, untold._replace(loss=untold.loss.joined(known.loss.loss)))
        )
        self._expected[key] = None
        if len(self._entries) > UNTOLD_MAX:
            self._forget(next(iter(self._entries)))

    def of(self, directory: str) -> list[UnreportedLoss]:
        """The losses that the file of a log directory must contain."""
        return [entry.loss for entry in self._entries.values() if entry.directory == directory]

    def look(self, image: MetadataImage, has_happened: Callable[[UnreportedLoss], bool]) -> list[Entry]:
        """Find out which losses have happened. Losses that never will are dropped and returned."""
        dropped = []
        for key in list(self._expected):
            entry = self._entries[key]
            if has_happened(entry.loss):
                del self._expected[key]
            elif self._is_partitions_again(image, entry.loss):
                dropped.append(entry)
                self._forget(key)
        return dropped

    def telling(self, image: MetadataImage) -> Telling:
        """Return the next losses to report. A loss newer than `image` waits for a newer image."""
        happened = (
            entry
            for key, entry in self._entries.items()
            if key not in self._expected and not _is_ahead(image, entry.loss)
        )
        entries = list(islice(happened, TOLD_AT_ONCE_MAX))
        keys = {
            topic: keys_by_partition(image.configs.topic(topic).items())
            for topic in dict.fromkeys(entry.loss.topic for entry in entries)
        }
        losses: dict[str, dict[str, Loss]] = {}
        told, dropped = [], []
        for entry in entries:
            untold = entry.loss
            report = self._report(image, keys[untold.topic], untold)
            if report is None:
                dropped.append(entry)
                continue
            told.append(entry)
            of_topic = losses.setdefault(untold.topic, {})
            key = loss_key(untold.partition, report.leader_epoch, self._replica_id)
            of_topic[key] = untold.loss.joined(of_topic.get(key) or report.losses.get(self._replica_id))
        return Telling(losses, told, dropped)

    def forget(self, entries: Iterable[Entry]) -> None:
        """Remove reported losses, except one that has grown by a further truncation meanwhile."""
        for entry in entries:
            if self._entries.get(entry.key) is entry:
                self._forget(entry.key)

    def _forget(self, key: Key) -> None:
        del self._entries[key]
        self._expected.pop(key, None)

    def _report(
        self, image: MetadataImage, keys: dict[int, list[tuple[str, str]]], untold: UnreportedLoss
    ) -> Report | None:
        """Return the report of its topic to which the loss belongs. None if the topic was deleted and recreated."""
        if _partition(image, untold) is None:
            return None
        return report_of_loss(
            reports_of(keys.get(untold.partition, ())), untold.first_epoch, untold.loss.leader_epoch, self._replica_id
        )

    def _is_partitions_again(self, image: MetadataImage, untold: UnreportedLoss) -> bool:
        """Whether the truncation is no longer due. The replica is in sync in a later leader epoch (or leads it), or the
        partition has left this broker."""
        partition = _partition(image, untold)
        if partition is None or self._replica_id not in partition.replicas:
            return True
        return partition.leader_epoch > untold.loss.leader_epoch and self._replica_id in partition.isr


def _partition(image: MetadataImage, untold: UnreportedLoss) -> PartitionRegistration | None:
    topic = image.topics.by_id.get(untold.topic_id)
    return None if topic is None else topic.partitions.get(untold.partition)


def _is_ahead(image: MetadataImage, untold: UnreportedLoss) -> bool:
    """Whether the loss belongs to a newer leader epoch than the image has. Replicas may learn of an election moments
    before the image."""
    partition = _partition(image, untold)
    return partition is not None and partition.leader_epoch < untold.loss.leader_epoch
