"""Adds what each new metadata image changed to the event journal: leaders, in-sync sets, brokers, directories, topics,
the active controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kraft.common.ids import uuid_to_text
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.metadata.image.partition_registration import PartitionRegistration, is_unclean_election
from kraft.metadata.publisher import MetadataUpdate
from kraft.raft.ports import LeaderAndEpoch
from kraft.server.events.event_journal import EventJournal, EventKind

PARTITIONS_PER_STEP: Final = 200


class MetadataEvents:
    """A publisher. Changes from before this node caught up are not reported: they are old, or happened while it was
    away."""

    def __init__(self, journal: EventJournal, leader: Callable[[], LeaderAndEpoch]) -> None:
        self._journal = journal
        self._leader = leader
        self._told: LeaderAndEpoch | None = None
        self._first = True

    def publish(self, update: MetadataUpdate) -> Iterator[None]:
        """See `kraft.metadata.publisher.MetadataPublisher`."""
        self._tell_controller()
        if self._first:
            self._first = False
            return
        for broker_id, before in update.changes.brokers.items():
            self._tell_broker(broker_id, before, update.image.cluster.brokers.get(broker_id))
        yield from self._tell_topics(update)

    def _tell_controller(self) -> None:
        leader = self._leader()
        if leader != self._told:
            self._told = leader
            self._journal.append(EventKind.CONTROLLER_CHANGED, controller=leader.leader_id, epoch=leader.epoch)

    def _tell_broker(self, broker_id: int, before: BrokerRegistration | None, after: BrokerRegistration | None) -> None:
        journal = self._journal
        if after is None:
            if before is not None:
                journal.append(EventKind.BROKER_UNREGISTERED, broker=broker_id, epoch=before.epoch)
            return
        if before is None or before.epoch != after.epoch:
            journal.append(EventKind.BROKER_REGISTERED, broker=broker_id, epoch=after.epoch)
        elif gone := [directory for directory in before.directories if directory not in after.directories]:
            for directory in gone:
                journal.append(EventKind.DIRECTORY_OFFLINE, broker=broker_id, directory=uuid_to_text(directory))
        was_fenced = before is None or before.fenced
        if after.fenced != was_fenced:
            journal.append(
                EventKind.BROKER_FENCED if after.fenced else EventKind.BROKER_UNFENCED,
                broker=broker_id,
                epoch=after.epoch,
            )
        if after.in_controlled_shutdown and not (before is not None and before.in_controlled_shutdown):
            journal.append(EventKind.BROKER_SHUTTING_DOWN, broker=broker_id, epoch=after.epoch)

    def _tell_topics(self, update: MetadataUpdate) -> Iterator[None]:
        topics, changes = update.image.topics, update.changes.topics
        for topic_id, gone in changes.deleted.items():
            self._journal.append(EventKind.TOPIC_DELETED, topic=gone.name, topic_id=uuid_to_text(topic_id))
        for topic_id, name in changes.created.items():
            self._journal.append(
                EventKind.TOPIC_CREATED,
                topic=name,
                topic_id=uuid_to_text(topic_id),
                partitions=len(topics.by_id[topic_id].partitions),
            )
        done = 0
        for topic_id, partitions in changes.partitions.items():
            topic = topics.by_id[topic_id]
            for index, before in partitions.items():
                if before is not None:
                    self._tell_partition(topic.name, index, before, topic.partitions[index])
                done += 1
                if done % PARTITIONS_PER_STEP == 0:
                    yield

    def _tell_partition(
        self, topic: str, index: int, before: PartitionRegistration, after: PartitionRegistration
    ) -> None:
        where = {"topic": topic, "partition": index, "leader": after.leader, "leader_epoch": after.leader_epoch}
        if after.leader_epoch != before.leader_epoch:
            self._journal.append(EventKind.LEADER_CHANGED, **where, former_leader=before.leader, isr=list(after.isr))
            if is_unclean_election(before, after):
                former = {
                    "former_leader": before.leader,
                    "former_epoch": before.leader_epoch,
                    "former_isr": list(before.isr),
                    "former_elr": list(before.elr),
                }
                self._journal.append(
                    EventKind.UNCLEAN_ELECTION, **where, **former, last_known=list(before.last_known_elr)
                )
        if set(after.isr) == set(before.isr):
            return
        kind = EventKind.ISR_EXPANDED if set(before.isr) < set(after.isr) else EventKind.ISR_SHRUNK
        self._journal.append(kind, **where, isr=list(after.isr), former_isr=list(before.isr))
