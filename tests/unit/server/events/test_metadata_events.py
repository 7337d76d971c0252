"""kraft/server/events/metadata_events.py"""

from __future__ import annotations

from typing import Any

from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.publisher import MetadataUpdate
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.partition_record import PartitionRecord
from kraft.metadata.records.register_broker_record import RegisterBrokerRecord
from kraft.metadata.records.remove_topic_record import RemoveTopicRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from kraft.raft.ports import LeaderAndEpoch
from kraft.server.events.event_journal import EventJournal
from kraft.server.events.metadata_events import MetadataEvents
from tests.unit.server.events.journals import StoppedClock

TOPIC, FIRST, SECOND = b"t" * 16, b"a" * 16, b"b" * 16


class Told:
    """A journal that a publisher fills, batch by batch."""

    def __init__(self) -> None:
        self.journal = EventJournal(StoppedClock())  # type: ignore[arg-type]
        self.leader = LeaderAndEpoch(1, 1)
        self.events = MetadataEvents(self.journal, lambda: self.leader)
        self.image = MetadataImage()
        self.offset = 0
        self.seen = -1
        self.by(RegisterBrokerRecord(broker_id=1, broker_epoch=3, fenced=False, log_dirs=[FIRST, SECOND]))

    def by(self, *records: Any) -> list[tuple[str, dict[str, Any]]]:
        """What the journal is told of these records."""
        self.image, changes = self.image.replay_batch(records)
        self.offset += 1
        for _ in self.events.publish(MetadataUpdate(self.image, changes, self.offset, 1, 0, 1, False)):
            pass
        told = self.journal.since(self.seen).events
        self.seen = self.journal.last_id
        return [(event.kind, dict(event.fields)) for event in told]


def partition(**change: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=TOPIC, partition_id=0, **change)


def test_metadata_from_before_startup_creates_no_events() -> None:
    told = Told()
    assert [event.kind for event in told.journal.since().events] == ["controller.changed"]


def test_broker_registration_fencing_and_removal_are_events() -> None:
    told = Told()
    assert told.by(RegisterBrokerRecord(broker_id=2, broker_epoch=5, fenced=True)) == [
        ("broker.registered", {"broker": 2, "epoch": 5})
    ]
    assert told.by(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=5, fenced=-1)) == [
        ("broker.unfenced", {"broker": 2, "epoch": 5})
    ]
    assert told.by(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=5, in_controlled_shutdown=1)) == [
        ("broker.shutting_down", {"broker": 2, "epoch": 5})
    ]
    assert told.by(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=5, fenced=1)) == [
        ("broker.fenced", {"broker": 2, "epoch": 5})
    ]
    assert told.by(UnregisterBrokerRecord(broker_id=2, broker_epoch=5)) == [
        ("broker.unregistered", {"broker": 2, "epoch": 5})
    ]


def test_the_event_of_a_lost_directory_names_the_directory() -> None:
    told = Told()
    lost = [("directory.offline", {"broker": 1, "directory": "YmJiYmJiYmJiYmJiYmJiYg"})]
    assert told.by(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, log_dirs=[FIRST])) == lost


def test_changes_of_topics_leaders_and_isrs_are_events() -> None:
    told = Told()
    topic = {"topic": "orders", "topic_id": "dHR0dHR0dHR0dHR0dHR0dA"}
    new = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        replicas=[1, 2],
        isr=[1, 2],
        leader=1,
        leader_epoch=0,
        directories=[FIRST, FIRST],
    )
    assert told.by(TopicRecord(name="orders", topic_id=TOPIC), new) == [("topic.created", {**topic, "partitions": 1})]
    where = {"topic": "orders", "partition": 0}
    now = {**where, "leader": 2, "leader_epoch": 1, "isr": [2]}
    assert told.by(partition(leader=2, isr=[2])) == [
        ("leader.changed", {**now, "former_leader": 1}),
        ("isr.shrunk", {**now, "former_isr": [1, 2]}),
    ]
    assert told.by(partition(isr=[2, 1])) == [("isr.expanded", {**now, "isr": [2, 1], "former_isr": [2]})]
    assert told.by(RemoveTopicRecord(topic_id=TOPIC)) == [("topic.deleted", topic)]


def test_a_new_active_controller_is_reported_with_the_first_metadata_change_after_it() -> None:
    told = Told()
    told.leader = LeaderAndEpoch(3, 2)
    assert told.by() == [("controller.changed", {"controller": 3, "epoch": 2})]
