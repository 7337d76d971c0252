"""librdkafka's producers, readers and group members."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from jepsen.checker.operations import Commit, Committed, Partition, Poll, Send
from jepsen.history import Recorder
from jepsen.servers import Servers
from jepsen.workloads.client import KEY, Client
from kraft.testing.foreign.librdkafka import Consumer, Producer
from kraft.testing.foreign.process import Hung
from kraft.testing.foreign.values import Received

FLUSH_SECONDS_MAX = 45.0
ASK_SECONDS_MAX = 3.0
QUICK = {"linger.ms": 2, "retry.backoff.ms": 50, "retry.backoff.max.ms": 300, "request.timeout.ms": 3000}
"""Short timeouts and pauses of producers, so that the effect of a fault shows soon."""
UNKNOWN_ATTEMPTS = 2  # The library does not tell; "more than one" claims least.


class RdProducer(Client):
    """A producer that sends numbered values to random partitions, with many in flight. It is idempotent with acks=all;
    `idempotent=False` and another `acks` make it weaker.

    It never gives up on a message: librdkafka would take a new producer epoch and send the later messages in flight
    again, which a broker cannot recognise. Where records may be lost (`Recorder.may_lose`), an idempotent producer
    whose records are gone gets a fatal error (OUT_OF_ORDER_SEQUENCE_NUMBER), and another producer replaces it, as a
    user would. Elsewhere that error is a finding.
    """

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        servers: Servers,
        seed: int,
        places: Sequence[Partition],
        per_second: float,
        **settings: Any,
    ) -> None:
        super().__init__(name, recorder, servers, seed)
        self.places = list(places)
        self.period = 1.0 / per_second
        self.settings = settings
        self.number = 0
        self.life = 0

    def open(self) -> None:
        self.producer = Producer(
            {
                **self.servers.librdkafka,
                "enable.idempotence": True,
                **QUICK,
                "message.timeout.ms": 0,
                **self.settings,
            }
        )
        self.fatal = False

    def work(self) -> None:
        if len(self.producer) < 2000:
            self._send()
        self._poll(self.period)
        if self.fatal:
            self.producer.purge()
            while len(self.producer):
                self._poll(0.1)
            self.replace()

    def replace(self) -> None:
        """Open another producer. The messages that the old one had in flight have an unknown outcome in the history."""
        self.life += 1
        self.open()

    def _poll(self, seconds: float) -> None:
        try:
            self.producer.poll(seconds)
        except KafkaException as problem:
            self._refused(problem)

    def _refused(self, problem: KafkaException) -> None:
        """Mark the producer for replacement after a fatal error, if records may be lost. Raises any other error."""
        error = problem.args[0]
        if not self.recorder.may_lose or not (error.fatal() or error.code() == KafkaError._FATAL):
            raise problem
        self.fatal = True

    def _send(self) -> None:
        topic, partition = self.chance.choice(self.places)
        value = f"{self.name}.{self.number}"
        self.number += 1
        send = Send(
            process=f"{self.name}/{self.life}",
            began=self.recorder.now(),
            topic=topic,
            partition=partition,
            values=[value],
            attempts=UNKNOWN_ATTEMPTS,
        )
        self.recorder.begin(send)

        def told(error: KafkaError | None, message: Received | None) -> None:
            now = self.recorder.now()
            if error is None and message is not None:
                # None: a batch sent again was acknowledged as a duplicate, and the broker no longer knows where it is.
                offset = message.offset()
                send.offset = -1 if offset is None else int(offset)
                send.ok(now)
                self.recorder.acknowledged[value] = now
            elif error is not None:
                send.failed(now, error.name(), definite=False)
            self.recorder.done(send)

        try:
            self.producer.produce(topic, value.encode(), KEY, partition=partition, on_delivery=told)
        except KafkaException as problem:
            self._refused(problem)
            told(problem.args[0], None)

    def close(self) -> None:
        try:
            self.producer.flush(FLUSH_SECONDS_MAX)
        except Hung:
            pass  # What was not acknowledged stays unknown in the history.
        except KafkaException as problem:
            self._refused(problem)


class Polls:
    """Turns the messages of a consumer into operations: one for each partition of each returned batch."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._next: dict[Partition, int] = {}

    def forget(self) -> None:
        """Forget the positions, after the consumer was repositioned."""
        self._next.clear()

    def forget_one(self, place: Partition) -> None:
        self._next.pop(place, None)

    def position(self, place: Partition) -> int:
        """The offset of the next record expected."""
        return self._next.get(place, 0)

    def record(self, began: float, messages: Sequence[Received]) -> dict[Partition, int]:
        """Record a batch of messages. Returns the next position of each partition with messages."""
        found: dict[Partition, list[tuple[int, str, int]]] = {}
        for message in messages:
            if message.error() is None:
                epoch = message.leader_epoch()
                record = (
                    int(message.offset() or 0),
                    (message.value() or b"").decode(),
                    -1 if epoch is None else int(epoch),
                )
                found.setdefault((str(message.topic()), int(message.partition() or 0)), []).append(record)
        return {place: self.record_one(began, place, records) for place, records in found.items()}

    def record_one(self, began: float, place: Partition, records: list[tuple[int, str, int]]) -> int:
        known = self._next.get(place)
        first = records[0][0]
        recorder = self._client.recorder
        poll = Poll(
            process=self._client.name,
            began=began,
            topic=place[0],
            partition=place[1],
            position=first if known is None else known,
            records=records,
            repositioned=known is None,
        )
        poll.ok(recorder.now())
        recorder.polled.update(value for _, value, _ in records)
        recorder.done(poll)
        self._next[place] = records[-1][0] + 1
        return self._next[place]


class RdReader(Client):
    """Reads given partitions from the beginning, without a group, and starts over at times."""

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        servers: Servers,
        seed: int,
        places: Sequence[Partition],
        again: float = 0.002,
        isolation: str = "read_uncommitted",
    ) -> None:
        super().__init__(name, recorder, servers, seed)
        self.places = list(places)
        self.again = again
        self.isolation = isolation

    def open(self) -> None:
        self.consumer = Consumer(
            {
                **self.servers.librdkafka,
                "group.id": f"none-{self.name}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "isolation.level": self.isolation,
            }
        )
        self.polls = Polls(self)
        self._assign()

    def _assign(self) -> None:
        self.polls.forget()
        self.consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in self.places])

    def work(self) -> None:
        began = self.recorder.now()
        self.polls.record(began, self.consumer.consume(500, 0.2))
        if self.chance.random() < self.again:
            self._assign()

    def close(self) -> None:
        close(self.consumer)


def close(consumer: Consumer) -> None:
    """Close the consumer and so leave the group. If librdkafka hangs, its process is killed."""
    try:
        consumer.close()
    except Hung:
        pass


def record_committed(
    recorder: Recorder, process: str, consumer: Consumer, group: str, partitions: list[TopicPartition]
) -> bool:
    """Fetch the committed offsets of the consumer's group once, and record them. Returns whether all were fetched."""
    began = recorder.now()
    try:
        found = consumer.committed(partitions, timeout=ASK_SECONDS_MAX)
    except KafkaException:
        return False
    told = [each for each in found if each.error is None]
    for each in told:
        read = Committed(
            process=process,
            began=began,
            topic=each.topic,
            partition=each.partition,
            group=group,
            offset=max(each.offset, -1),
        )
        read.ok(recorder.now())
        recorder.done(read)
    return len(told) == len(found)


class RdMember(Client):
    """A group member that subscribes, reads, commits what it read, and at times leaves and returns. `protocol` is
    "classic" or "consumer" (KIP-848)."""

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        servers: Servers,
        seed: int,
        topics: Sequence[str],
        group: str,
        leave: float = 0.01,
        protocol: str = "classic",
    ) -> None:
        super().__init__(name, recorder, servers, seed)
        self.protocol = protocol
        self.topics = list(topics)
        self.group = group
        self.leave = leave

    def open(self) -> None:
        self.consumer = Consumer(
            {
                **self.servers.librdkafka,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "group.protocol": self.protocol,
                **({"session.timeout.ms": 6000, "heartbeat.interval.ms": 500} if self.protocol == "classic" else {}),
                "fetch.wait.max.ms": 100,
            }
        )
        self.polls = Polls(self)
        self.consumer.subscribe(self.topics, on_assign=self._assigned, on_revoke=self._revoked)
        self.positions: dict[Partition, int] = {}
        self.commit_at = 0.0

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.polls.forget()
        self.positions.clear()
        record_committed(self.recorder, self.name, consumer, self.group, partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self.positions.pop((each.topic, each.partition), None)

    def work(self) -> None:
        began = self.recorder.now()
        self.positions.update(self.polls.record(began, self.consumer.consume(200, 0.1)))
        if self.positions and time.monotonic() > self.commit_at:
            self._commit()
            self.commit_at = time.monotonic() + self.chance.uniform(0.1, 0.6)
            if self.chance.random() < self.leave:
                close(self.consumer)
                self.open()

    def _commit(self) -> None:
        commits = [
            self.recorder.begin(
                Commit(
                    process=self.name,
                    began=self.recorder.now(),
                    topic=topic,
                    partition=partition,
                    group=self.group,
                    offset=offset,
                )
            )
            for (topic, partition), offset in sorted(self.positions.items())
        ]
        self.positions.clear()
        wanted = [TopicPartition(each.topic, each.partition, each.offset) for each in commits]
        errors: dict[Partition, KafkaError | None] = {}
        failure: KafkaError | None = None
        try:
            for each in self.consumer.commit(offsets=wanted, asynchronous=False) or []:
                errors[(each.topic, each.partition)] = each.error
        except KafkaException as problem:
            failure = problem.args[0]
        except Hung:
            self._tell(commits, errors, KafkaError(KafkaError._TIMED_OUT))
            raise
        self._tell(commits, errors, failure)

    def _tell(
        self, commits: list[Commit], errors: dict[Partition, KafkaError | None], failure: KafkaError | None
    ) -> None:
        """Record the outcome of commits: `failure` for all, or the error of each."""
        for commit in commits:
            error = failure or errors.get(commit.place)
            if error is None:
                commit.ok(self.recorder.now())
            else:
                commit.failed(self.recorder.now(), error.name(), definite=False)
            self.recorder.done(commit)

    def close(self) -> None:
        close(self.consumer)
