"""Members of a share group: librdkafka's share consumer (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import AcknowledgeType, KafkaException
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from jepsen.checker.operations import Acknowledged, Acquired, Partition
from jepsen.history import Recorder
from jepsen.servers import Servers
from jepsen.workloads.client import Client
from kraft.testing.foreign.librdkafka import AdminClient, ShareConsumer
from kraft.testing.foreign.process import ForeignProcess, Hung
from kraft.testing.foreign.values import Received

LOCK_SECONDS: Final = 4.0
LIMIT: Final = 25
"""Limit of deliveries. It is high, since each death of a leader may cost one."""
GROUP_SETTINGS: Final[Mapping[str, str]] = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": str(int(LOCK_SECONDS * 1000)),
    "share.delivery.count.limit": str(LIMIT),
}
UNDER_WAY_SECONDS_MAX: Final = 5.0
"""Longest time that a response may be under way: a little more than the socket timeout of 4 s."""
POLL_SECONDS: Final = 0.5
COMMIT_SECONDS: Final = 8.0
CONFIGURE_SECONDS: Final = 30.0
KINDS: Final = {"accept": AcknowledgeType.ACCEPT, "release": AcknowledgeType.RELEASE, "reject": AcknowledgeType.REJECT}
WEIGHTS: Final = (90, 7, 3)
SLEEPY: Final = 0.03
CLOSING: Final = 0.01
DYING: Final = 0.01


def configure(admin: AdminClient, group: str) -> None:
    """Set the group's configuration. Raises KafkaException."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in GROUP_SETTINGS.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    done = admin.incremental_alter_configs([resource], request_timeout=CONFIGURE_SECONDS)
    for future in done.values():
        future.result()


class RdShareMember(Client):
    """A member that accepts most records, releases or rejects some, and commits after each poll. At times it sleeps
    past its locks before that, closes while it holds records, or dies with them."""

    def __init__(
        self, name: str, recorder: Recorder, servers: Servers, seed: int, topics: Sequence[str], group: str
    ) -> None:
        super().__init__(name, recorder, servers, seed)
        self.topics = list(topics)
        self.group = group

    def open(self) -> None:
        self.process = ForeignProcess()  # Of its own, since it is to die alone.
        self.consumer = ShareConsumer(
            {**self.servers.librdkafka, "group.id": self.group, "share.acknowledgement.mode": "explicit"},
            process=self.process,
        )
        self.consumer.subscribe(self.topics)
        self.asked_at = self.recorder.now()

    def work(self) -> None:
        acquired = self._poll()
        chance = self.chance.random()
        if chance < SLEEPY:
            self.stopping.wait(LOCK_SECONDS + 1)
        elif acquired and chance < SLEEPY + CLOSING + DYING:
            self._replace(acquired, dies=chance < SLEEPY + DYING)
            return
        if acquired:
            self._commit(acquired)

    def _poll(self) -> list[Acquired]:
        """Fetch once, and record what came."""
        began, since = self.recorder.now(), self.asked_at - UNDER_WAY_SECONDS_MAX
        try:
            messages = self.consumer.poll(POLL_SECONDS)
        except KafkaException:
            messages = []  # No broker could be asked. Whether any should have been, the rules of progress judge.
        self.asked_at = began
        found: dict[Partition, list[Received]] = {}
        for message in messages:
            if message.error() is None:
                found.setdefault((message.topic(), message.partition()), []).append(message)
        return [self._record(began, since, place, each) for place, each in found.items()]

    def _record(self, began: float, since: float, place: Partition, messages: Sequence[Received]) -> Acquired:
        records = [
            (int(each.offset() or 0), (each.value() or b"").decode(), int(each.delivery_count() or 0))
            for each in messages
        ]
        acquired = Acquired(
            process=self.name,
            began=began,
            topic=place[0],
            partition=place[1],
            group=self.group,
            since=max(0.0, since),
            limit=LIMIT,
            lock_seconds=LOCK_SECONDS,
            records=records,
        )
        acquired.ok(self.recorder.now())
        self.recorder.done(acquired)
        self.recorder.finished.update(value for _, value, count in records if count >= LIMIT)
        return acquired

    def _commit(self, acquired: Sequence[Acquired]) -> None:
        """Acknowledge all records and commit; record the outcome of each partition."""
        under_way = [acknowledged for each in acquired for acknowledged in self._acknowledge(each)]
        values = {(each.place, offset): value for each in acquired for offset, value, _ in each.records}
        errors: dict[Partition, str] = {}
        failure = ""
        try:
            found = self.consumer.commit_sync(COMMIT_SECONDS)
            answered = {(each.topic, each.partition) for each in found}
            errors = {(each.topic, each.partition): _name(error) for each, error in found.items() if error is not None}
        except KafkaException as problem:
            failure, answered = _name(problem), set()
        except Hung:
            self._record_outcomes(under_way, {}, "_TIMED_OUT", set())
            raise
        self._record_outcomes(under_way, errors, failure, answered)
        for each in under_way:
            if each.kind != "release":
                self.recorder.finished.update(values[each.place, offset] for offset in each.offsets)

    def _acknowledge(self, acquired: Acquired) -> list[Acknowledged]:
        """Choose a kind for each record and tell the client. Returns an operation for each kind."""
        chosen: dict[str, list[int]] = {}
        for offset, _, _ in acquired.records:
            kind = self.chance.choices(list(KINDS), WEIGHTS)[0]
            self.consumer.acknowledge_offset(acquired.topic, acquired.partition, offset, int(KINDS[kind].value))
            chosen.setdefault(kind, []).append(offset)
        return [self.recorder.begin(self._operation(acquired, kind, offsets)) for kind, offsets in chosen.items()]

    def _operation(self, acquired: Acquired, kind: str, offsets: list[int]) -> Acknowledged:
        return Acknowledged(
            process=self.name,
            began=self.recorder.now(),
            topic=acquired.topic,
            partition=acquired.partition,
            group=self.group,
            kind=kind,
            offsets=offsets,
        )

    def _record_outcomes(
        self,
        under_way: Sequence[Acknowledged],
        errors: Mapping[Partition, str],
        failure: str,
        answered: set[Partition],
    ) -> None:
        """Record the outcome of each acknowledgement. Any error leaves it open: the client may have sent it twice, and
        the second is refused if the first took effect."""
        for each in under_way:
            error = failure or errors.get(each.place) or ("" if each.place in answered else "no answer")
            if error:
                each.failed(self.recorder.now(), error, definite=False)
            else:
                each.ok(self.recorder.now())
            self.recorder.done(each)

    def _replace(self, acquired: Sequence[Acquired], *, dies: bool) -> None:
        """Die, or close, with the records unacknowledged, and begin again."""
        for each in acquired:
            closing = self._operation(each, "close", [offset for offset, _, _ in each.records])
            closing.ok(self.recorder.now())
            self.recorder.done(closing)
        if not dies:
            self._close()
        self.process.close()
        self.open()

    def replace(self) -> None:
        self.process.close()
        self.open()

    def close(self) -> None:
        self._close()
        self.process.close()

    def _close(self) -> None:
        try:
            self.consumer.close()
        except (Hung, KafkaException):
            pass  # The locks of what it held end by themselves.


def _name(problem: KafkaException) -> str:
    return str(problem.args[0].name())
