"""librdkafka's transactional producers. One commits, aborts and leaves transactions open. The other reads a topic,
writes the records to another topic, and commits records and offsets together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import KafkaException, TopicPartition

from jepsen.checker.operations import FAIL, INFO, OK, Commit, Partition, Send, Transaction
from jepsen.history import Recorder
from jepsen.servers import Servers
from jepsen.workloads.client import KEY, Client
from jepsen.workloads.rdkafka import ASK_SECONDS_MAX, QUICK, UNKNOWN_ATTEMPTS, record_committed
from kraft.testing.foreign.librdkafka import Consumer, Producer
from kraft.testing.foreign.process import ClientDied, ForeignProcess, Hung
from kraft.testing.foreign.values import Received

BEGIN_SECONDS_MAX = 15.0
END_SECONDS_MAX = 15.0
TRANSACTION_MS = 10_000
RECORDS_MAX = 6
READ_AT_ONCE = 20
COMMIT_UP_TO = 0.75
ABORT_UP_TO = 0.9
"""Random numbers above it leave the transaction open."""
OF = "<"
"""Prefix of the read value in the written value."""


class _Sent(NamedTuple):
    """A transaction in the history, with its records and the offsets that it commits."""

    transaction: Transaction
    sends: list[Send]
    commits: list[Commit]


class Transactional(Client):
    """A client with one transactional id. Its librdkafka has its own process, which is replaced, under the same id,
    after every error that a producer does not survive, and if librdkafka hangs."""

    def __init__(self, name: str, recorder: Recorder, servers: Servers, seed: int, places: Sequence[Partition]) -> None:
        super().__init__(name, recorder, servers, seed)
        self.places = list(places)
        self.number = 0
        self.life = 0
        self.process: ForeignProcess | None = None

    def work(self) -> None:
        try:
            if self.process is None:
                self.process = ForeignProcess()
                self.begin(self.process)
            self.transact()
        except (KafkaException, ClientDied):
            self.replace()

    def begin(self, process: ForeignProcess) -> None:
        """Make clients in a new process. Raises KafkaException, Hung."""
        raise NotImplementedError

    def transact(self) -> None:
        """Run one transaction, or none. Raises Hung, and KafkaException for an error that the producer does not
        survive."""
        raise NotImplementedError

    def replace(self) -> None:
        """Kill the process, like a crash: an open transaction stays open."""
        if self.process is not None:
            self.process.close()
            self.process = None
        self.life += 1

    def close(self) -> None:
        if self.process is not None:
            self.process.close()

    def begun(self, process: ForeignProcess) -> Producer:
        """Return an initialised producer, which has fenced earlier ones. Raises KafkaException, Hung."""
        producer = Producer(
            {
                **self.servers.librdkafka,
                "transactional.id": self.name,
                "transaction.timeout.ms": TRANSACTION_MS,
                **QUICK,
                "socket.timeout.ms": 3000,
            },
            process=process,
        )
        producer.init_transactions(BEGIN_SECONDS_MAX)
        return producer

    def write(self, producer: Producer, sources: Sequence[str]) -> _Sent:
        """Begin a transaction and send a record for each source. Raises KafkaException, Hung; the transaction is then
        in the history, and is never asked to commit."""
        now = self.recorder.now()
        sent = _Sent(Transaction(process=self.name, began=now, transactional_id=self.name), [], [])
        producer.begin_transaction()
        try:
            for source in sources:
                topic, partition = self.chance.choice(self.places)
                value = f"{self.name}.{self.number}{OF if source else ''}{source}"
                self.number += 1
                send = Send(
                    process=f"{self.name}/{self.life}",
                    began=self.recorder.now(),
                    topic=topic,
                    partition=partition,
                    values=[value],
                    attempts=UNKNOWN_ATTEMPTS,
                )
                sent.sends.append(send)
                sent.transaction.values.append(value)
                producer.produce(topic, value.encode(), KEY, partition=partition)
        except (KafkaException, Hung, ClientDied):
            self.settle(sent, FAIL, "not written whole")
            raise
        return sent

    def settle(self, sent: _Sent, outcome: str, error: str = "") -> None:
        """Record the outcome of a transaction: FAIL if it was never asked to commit."""
        now = self.recorder.now()
        for each in (sent.transaction, *sent.sends, *sent.commits):
            each.outcome, each.ended, each.error = outcome, now, error
            self.recorder.done(each)
        if outcome == OK:
            for value in sent.transaction.values:
                self.recorder.acknowledged[value] = now

    def commit(self, producer: Producer, sent: _Sent) -> bool:
        """Commit the transaction. Returns whether it is committed; otherwise it was aborted. Raises KafkaException,
        Hung."""
        sent.transaction.asked = self.recorder.now()
        try:
            producer.commit_transaction(END_SECONDS_MAX)
        except KafkaException as problem:
            self.settle(sent, INFO, problem.args[0].name())
            if not problem.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(END_SECONDS_MAX)
            return False
        except (Hung, ClientDied):
            self.settle(sent, INFO, "no answer")
            raise
        self.settle(sent, OK)
        return True

    def abort(self, producer: Producer, sent: _Sent) -> None:
        """Abort the transaction after flushing: queued records would not be sent at all otherwise. Raises
        KafkaException, Hung."""
        self.settle(sent, FAIL, "aborted")
        producer.flush(END_SECONDS_MAX)
        producer.abort_transaction(END_SECONDS_MAX)


class RdTransactor(Transactional):
    """Runs transactions of a few records over several partitions. Some are aborted. Some are left open by a producer
    that is replaced under its id, and then tries to commit."""

    def __init__(self, name: str, recorder: Recorder, servers: Servers, seed: int, places: Sequence[Partition]) -> None:
        super().__init__(name, recorder, servers, seed, places)
        self.producer: Producer | None = None
        self.left: Producer | None = None

    def replace(self) -> None:
        super().replace()
        self.producer = self.left = None

    def begin(self, process: ForeignProcess) -> None:
        self.producer = self.begun(process)

    def transact(self) -> None:
        assert self.process is not None
        if self.producer is None:
            self.life += 1
            self.producer = self.begun(self.process)
            self._haunt()
        producer = self.producer
        sent = self.write(producer, [""] * self.chance.randint(1, RECORDS_MAX))
        fate = self.chance.random()
        if fate < COMMIT_UP_TO:
            self.commit(producer, sent)
        elif fate < ABORT_UP_TO:
            self.abort(producer, sent)
        else:
            self.settle(sent, FAIL, "left open")
            producer.flush(1.0)
            self.left, self.producer = producer, None

    def _haunt(self) -> None:
        """Let the replaced producer continue: nothing that it does may have an effect."""
        zombie, self.left = self.left, None
        if zombie is None:
            return
        try:
            zombie.commit_transaction(END_SECONDS_MAX)
        except KafkaException:
            return
        self.unexpected("a producer that was replaced committed its transaction")


class RdTransformer(Transactional):
    """A group member that copies each record of its topic exactly once to another topic: the transaction commits its
    offsets too."""

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        servers: Servers,
        seed: int,
        source: str,
        group: str,
        places: Sequence[Partition],
    ) -> None:
        super().__init__(name, recorder, servers, seed, places)
        self.source = source
        self.group = group

    def begin(self, process: ForeignProcess) -> None:
        self.producer = self.begun(process)
        self.consumer = Consumer(
            {
                **self.servers.librdkafka,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "fetch.wait.max.ms": 100,
                "isolation.level": "read_committed",
            },
            process=process,
        )
        # With callbacks, librdkafka takes part in a rebalance only while it is asked for records: within a transaction
        # the generation stays the one whose records it has.
        self.consumer.subscribe([self.source], on_assign=self._assigned, on_revoke=self._lost)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        record_committed(self.recorder, self.name, consumer, self.group, partitions)

    def _lost(self, *_: object) -> None:
        self.has_lost = True

    def transact(self) -> None:
        self.has_lost = False
        found: list[Received] = [each for each in self.consumer.consume(READ_AT_ONCE, 0.3) if each.error() is None]
        if self.has_lost:  # Some may have been read before the rebalance, whose next owner may be another.
            self._read_again()
            return
        if not found:
            return
        producer = self.producer
        sent = self.write(producer, [(each.value() or b"").decode() for each in found])
        if not self._move(sent, found):
            return
        fate = self.chance.random()
        if fate < COMMIT_UP_TO:
            if not self.commit(producer, sent):
                self._read_again()
        elif fate < ABORT_UP_TO:
            self.abort(producer, sent)
            self._read_again()
        else:
            self.settle(sent, FAIL, "left open")
            producer.flush(1.0)
            self.replace()

    def _move(self, sent: _Sent, found: Sequence[Received]) -> bool:
        """Add the offsets to the transaction. False if that is refused, and the transaction aborted. Raises
        KafkaException, Hung."""
        ends: dict[int, int] = {}
        for each in found:
            ends[int(each.partition() or 0)] = int(each.offset() or 0) + 1
        sent.commits.extend(
            Commit(
                process=self.name,
                began=self.recorder.now(),
                topic=self.source,
                partition=partition,
                group=self.group,
                offset=end,
            )
            for partition, end in sorted(ends.items())
        )
        positions = [TopicPartition(each.topic, each.partition, each.offset) for each in sent.commits]
        metadata = self.consumer.consumer_group_metadata()
        try:
            self.producer.send_offsets_to_transaction(positions, metadata, END_SECONDS_MAX)
        except KafkaException as problem:
            self.settle(sent, FAIL, f"offsets: {problem.args[0].name()}")
            if not problem.args[0].txn_requires_abort():
                raise
            self.producer.abort_transaction(END_SECONDS_MAX)
            self._read_again()
            return False
        except (Hung, ClientDied):
            self.settle(sent, FAIL, "offsets: no answer")
            raise
        finally:
            self.consumer.process.release(metadata.number)
        return True

    def _read_again(self) -> None:
        """Return to the committed offsets. Raises KafkaException, Hung."""
        for each in self.consumer.committed(self.consumer.assignment(), ASK_SECONDS_MAX):
            if each.error is not None:
                raise KafkaException(each.error)
            self.consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
