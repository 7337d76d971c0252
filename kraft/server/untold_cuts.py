"""Cuts of logs that the active controller has to hear of: which are, in which order they are told, and when one may
be forgotten. Pure.

A cut counts if what is cut is older than an election that the metadata reports, and if it is made under that
election's leader or a later one; any other is the ordinary end of what was never acknowledged. It is noted before it
is made: what it is to give up is then known even if the process ends in the middle. It is told once it is made,
which the log shows. One that was never made and never will be, since its records are the partition's again, is
forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kraft.common.loss_reports import Cut, Loss, Report, keys_by_partition, loss_key, report_of_loss, reports_of
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.partition_registration import PartitionRegistration

CUTS_MAX: Final = 10_000
"""Of all log directories; the oldest of more is told by this node's log alone."""
TOLD_AT_ONCE_MAX: Final = 500


Key = tuple[str, bytes, int, int, int]
"""Cuts with the same one are steps of one cut: log directory, topic id, partition, epoch of the first record, leader
epoch."""


class Entry(NamedTuple):
    """A cut, and the log directory whose file tells of it."""

    directory: str
    cut: Cut

    @property
    def key(self) -> Key:
        cut = self.cut
        return (self.directory, cut.topic_id, cut.partition, cut.first_epoch, cut.loss.leader_epoch)


class Telling(NamedTuple):
    """What is to be done now: `losses` to be set, by topic and key, on behalf of `told`; `moot` are told to nobody,
    as no report has a place for them."""

    losses: dict[str, dict[str, Loss]]
    told: Sequence[Entry]
    moot: Sequence[Entry]


class UntoldCuts:
    """Of one broker, oldest first. `replica_id` is that broker's."""

    def __init__(self, replica_id: int) -> None:
        self._replica_id = replica_id
        self._entries: dict[Key, Entry] = {}
        self._unmade: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def may_count(self, image: MetadataImage, cut: Cut) -> bool:
        """Whether a cut that is about to be made has to be noted: a report has a place for it, or may have once the
        image is newer."""
        return (
            _is_ahead(image, cut)
            or self._report(image, keys_by_partition(image.configs.topic(cut.topic).items()), cut) is not None
        )

    def note(self, directory: str, cut: Cut) -> None:
        """It is about to be made, or was when the last run ended. A log is cut in steps: those under one leader, of
        records of one epoch, become one."""
        entry = Entry(directory, cut)
        key, known = entry.key, self._entries.get(entry.key)
        self._entries[key] = (
            entry if known is None else Entry(directory, cut._replace(loss=cut.loss.joined(known.cut.loss)))
        )
        self._unmade[key] = None
        if len(self._entries) > CUTS_MAX:
            self._forget(next(iter(self._entries)))

    def of(self, directory: str) -> list[Cut]:
        """What the file of a log directory has to tell."""
        return [entry.cut for entry in self._entries.values() if entry.directory == directory]

    def look(self, image: MetadataImage, is_made: Callable[[Cut], bool]) -> list[Entry]:
        """See which cuts have been made; those that never will be are forgotten, and returned."""
        moot = []
        for key in list(self._unmade):
            entry = self._entries[key]
            if is_made(entry.cut):
                del self._unmade[key]
            elif self._is_partitions_again(image, entry.cut):
                moot.append(entry)
                self._forget(key)
        return moot

    def telling(self, image: MetadataImage) -> Telling:
        """The next to be told. What is ahead of `image` waits for a newer one."""
        made = (
            entry for key, entry in self._entries.items() if key not in self._unmade and not _is_ahead(image, entry.cut)
        )
        entries = list(islice(made, TOLD_AT_ONCE_MAX))
        keys = {
            topic: keys_by_partition(image.configs.topic(topic).items())
            for topic in dict.fromkeys(entry.cut.topic for entry in entries)
        }
        losses: dict[str, dict[str, Loss]] = {}
        told, moot = [], []
        for entry in entries:
            cut = entry.cut
            report = self._report(image, keys[cut.topic], cut)
            if report is None:
                moot.append(entry)
                continue
            told.append(entry)
            of_topic = losses.setdefault(cut.topic, {})
            key = loss_key(cut.partition, report.leader_epoch, self._replica_id)
            of_topic[key] = cut.loss.joined(of_topic.get(key) or report.losses.get(self._replica_id))
        return Telling(losses, told, moot)

    def settled(self, entries: Iterable[Entry]) -> None:
        """They need not be told any more. One to which a further step was joined meanwhile still has to be."""
        for entry in entries:
            if self._entries.get(entry.key) is entry:
                self._forget(entry.key)

    def _forget(self, key: Key) -> None:
        del self._entries[key]
        self._unmade.pop(key, None)

    def _report(self, image: MetadataImage, keys: dict[int, list[tuple[str, str]]], cut: Cut) -> Report | None:
        """Where the cut belongs, among the reports of its topic's name: one that was made anew has none of it."""
        if _partition(image, cut) is None:
            return None
        return report_of_loss(
            reports_of(keys.get(cut.partition, ())), cut.first_epoch, cut.loss.leader_epoch, self._replica_id
        )

    def _is_partitions_again(self, image: MetadataImage, cut: Cut) -> bool:
        """Whether a replica that has the records yet may keep them: it is in sync under a later leader, perhaps
        itself; or the partition is gone from here."""
        partition = _partition(image, cut)
        if partition is None or self._replica_id not in partition.replicas:
            return True
        return partition.leader_epoch > cut.loss.leader_epoch and self._replica_id in partition.isr


def _partition(image: MetadataImage, cut: Cut) -> PartitionRegistration | None:
    topic = image.topics.by_id.get(cut.topic_id)
    return None if topic is None else topic.partitions.get(cut.partition)


def _is_ahead(image: MetadataImage, cut: Cut) -> bool:
    """Whether replicas saw the election before the image is shown here, which is a matter of moments."""
    partition = _partition(image, cut)
    return partition is not None and partition.leader_epoch < cut.loss.leader_epoch
