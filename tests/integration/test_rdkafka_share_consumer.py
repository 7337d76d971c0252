"""librdkafka's share consumer on a node of ours: what its own tests expect of a broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Message
from confluent_kafka import ShareConsumer as RdShareConsumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from kraft.testing.foreign.librdkafka import AdminClient, Producer
from kraft.testing.node_process import NodeProcess

pytestmark = pytest.mark.timeout(120)
LOCK_SECONDS = 15
SECONDS_MAX = 60
QUIET_SECONDS = 3.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("shares") / "node") as started:
        yield started


class Queue:
    """A topic of one partition with records 0 to N-1, and a share group of the same name that starts at the first."""

    def __init__(self, node: NodeProcess, records: int) -> None:
        self.node = node
        self.name = f"queue-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        for created in admin.create_topics([NewTopic(self.name, 1, 1)]).values():
            created.result(30)
        settings = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(LOCK_SECONDS * 1000),
            "share.delivery.count.limit": "3",
        }
        entries = [ConfigEntry(key, to, incremental_operation=AlterConfigOpType.SET) for key, to in settings.items()]
        resource = ConfigResource(ResourceType.GROUP, self.name, incremental_configs=entries)
        for altered in admin.incremental_alter_configs([resource]).values():
            altered.result(30)
        self.produce(range(records))

    def produce(self, numbers: Sequence[int]) -> None:
        producer = Producer({"bootstrap.servers": self.node.bootstrap})
        for number in numbers:
            producer.produce(self.name, b"%d" % number)
        assert producer.flush(30) == 0

    def member(self, *, explicit: bool = False) -> RdShareConsumer:
        mode = "explicit" if explicit else "implicit"
        config = {
            "bootstrap.servers": self.node.bootstrap,
            "group.id": self.name,
            "share.acknowledgement.mode": mode,
        }
        made = RdShareConsumer(config)
        made.subscribe([self.name])
        return made


def poll(member: RdShareConsumer, count: int) -> list[Message]:
    """At least so many records of one poll."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        found = [each for each in member.poll(timeout=1.0) if each.error() is None]
        if found:
            assert len(found) >= count, [each.offset() for each in found]
            return found
        assert time.monotonic() < deadline, "no record"


def told(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Offset and delivery count of each record."""
    return [(each.offset(), each.delivery_count()) for each in messages]


def nothing_more(member: RdShareConsumer) -> None:
    """No record comes for a while, which is shorter than a lock."""
    until = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < until:
        assert told(member.poll(timeout=0.5)) == []


def test_the_next_poll_accepts_the_records_of_the_last_one_in_implicit_mode(node: NodeProcess) -> None:
    queue = Queue(node, 3)
    first = queue.member()
    assert told(poll(first, 3)) == [(0, 1), (1, 1), (2, 1)]
    nothing_more(first)
    first.close()
    second = queue.member()
    nothing_more(second)
    queue.produce([3])
    assert told(poll(second, 1)) == [(3, 1)]
    second.close()


def test_a_closed_member_releases_the_records_of_its_last_poll_without_waiting_for_their_lock(
    node: NodeProcess,
) -> None:
    queue = Queue(node, 3)
    first = queue.member()
    poll(first, 3)
    first.close()
    began = time.monotonic()
    second = queue.member()
    assert told(poll(second, 3)) == [(0, 2), (1, 2), (2, 2)]
    assert time.monotonic() - began < LOCK_SECONDS
    second.close()


def test_commit_sync_accepts_the_last_poll_in_implicit_mode_and_names_each_partition(node: NodeProcess) -> None:
    queue = Queue(node, 3)
    first = queue.member()
    poll(first, 3)
    assert {(each.topic, each.partition): error for each, error in first.commit_sync(30).items()} == {
        (queue.name, 0): None
    }
    assert first.commit_sync(30) == {}, "nothing is pending"
    first.close()
    second = queue.member()
    nothing_more(second)
    second.close()


def test_commit_async_reports_the_outcome_to_its_callback(node: NodeProcess) -> None:
    queue = Queue(node, 2)
    outcomes: list[object] = []
    member = queue.member(explicit=True)
    member.set_acknowledgement_commit_callback(lambda *results: outcomes.append(results))
    for each in poll(member, 2):
        member.acknowledge(each, AcknowledgeType.ACCEPT)
    member.commit_async()
    deadline = time.monotonic() + SECONDS_MAX
    while not outcomes:
        assert time.monotonic() < deadline
        member.poll(timeout=0.2)
    assert "_ERR" not in repr(outcomes)
    member.close()
    second = queue.member()
    nothing_more(second)
    second.close()


def test_an_explicit_member_may_not_poll_before_it_has_acknowledged_all(node: NodeProcess) -> None:
    queue = Queue(node, 2)
    member = queue.member(explicit=True)
    first, second = poll(member, 2)
    member.acknowledge(first, AcknowledgeType.ACCEPT)
    with pytest.raises(Exception, match=r"(?i)state|acknowledge"):
        member.poll(timeout=1.0)
    member.acknowledge(second, AcknowledgeType.ACCEPT)
    assert list(member.commit_sync(30).values()) == [None]
    nothing_more(member)
    member.close()


def test_an_implicit_member_may_not_acknowledge(node: NodeProcess) -> None:
    queue = Queue(node, 1)
    member = queue.member()
    [record] = poll(member, 1)
    with pytest.raises(Exception, match=r"(?i)state|mode"):
        member.acknowledge(record, AcknowledgeType.ACCEPT)
    member.close()


def test_acknowledgements_of_one_commit_release_reject_and_accept_each_its_own_record(node: NodeProcess) -> None:
    queue = Queue(node, 3)
    member = queue.member(explicit=True)
    kinds = (AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.ACCEPT)
    for record, kind in zip(poll(member, 3), kinds, strict=True):
        member.acknowledge(record, kind)
    assert list(member.commit_sync(30).values()) == [None]
    [again] = poll(member, 1)
    assert told([again]) == [(0, 2)]
    member.acknowledge_offset(queue.name, 0, 0, int(AcknowledgeType.ACCEPT.value))
    assert list(member.commit_sync(30).values()) == [None]
    nothing_more(member)
    member.close()


def test_a_record_is_delivered_as_often_as_the_group_allows_and_then_no_more(node: NodeProcess) -> None:
    queue = Queue(node, 1)
    member = queue.member(explicit=True)
    for count in (1, 2, 3):
        [record] = poll(member, 1)
        assert told([record]) == [(0, count)]
        member.acknowledge(record, AcknowledgeType.RELEASE)
        member.commit_sync(30)
    nothing_more(member)
    member.close()


def test_a_member_that_leaves_with_records_gives_them_to_the_other_member_at_once(node: NodeProcess) -> None:
    queue = Queue(node, 2)
    leaving = queue.member(explicit=True)
    held = poll(leaving, 2)
    staying = queue.member()
    nothing_more(staying)
    leaving.acknowledge(held[0], AcknowledgeType.ACCEPT)
    leaving.close()
    assert told(poll(staying, 1)) == [(1, 2)], "close sends what was acknowledged, and releases the rest"
    staying.close()


def test_an_acknowledgement_after_the_lock_has_expired_is_refused_in_its_partition(node: NodeProcess) -> None:
    queue = Queue(node, 1)
    late = queue.member(explicit=True)
    [record] = poll(late, 1)
    other = queue.member(explicit=True)
    [again] = poll(other, 1)
    assert told([again]) == [(0, 2)], "its lock has expired"
    late.acknowledge(record, AcknowledgeType.ACCEPT)
    [refused] = late.commit_sync(30).values()
    assert isinstance(refused, KafkaException)
    assert refused.args[0].name() == "INVALID_RECORD_STATE"
    other.acknowledge(again, AcknowledgeType.ACCEPT)
    assert list(other.commit_sync(30).values()) == [None]
    late.close()
    other.close()
