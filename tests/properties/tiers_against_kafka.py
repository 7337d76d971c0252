"""Random lives of a tiered topic, told to Apache Kafka, with the object store of its own tests, and to a node of ours
alike over the wire: once both have copied and deleted what they want to, every answer must be the same.

The same batches make the same segments, so both tiers begin and end at the same offsets. Two things are each side's
own and are renamed: producer ids, which are not looked at, and leader epochs, which are named by the order in which
they began. A marker has the time at which it was written; every record is older.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

from confluent_kafka import TopicPartition

from kraft.protocol.error_codes import name_of
from kraft.testing.foreign.librdkafka import Consumer
from tests.properties.transactions_against_kafka import Side, codes_of
from tests.vectors.plain import Batch

Plain = Any

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
NAMED_TIMES: Final = (LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
LIST_OFFSETS, FETCH, PRODUCE, END_TXN, ADD_PARTITIONS = 11, 12, 9, 3, 3
SETTLED_SECONDS_MAX: Final = 40.0
ALIKE_SECONDS: Final = 1.5
PAUSE_SECONDS: Final = 0.1
SEGMENT: Final = 1500
LOCAL: Final = 4000
HOUR_MS: Final = 3_600_000
OLD_MS: Final = 20 * HOUR_MS
BOTH_LEVELS: Final = (0, 1)
CONFIG: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": str(SEGMENT),
    "index.interval.bytes": "300",
    "local.retention.bytes": str(LOCAL),
    "file.delete.delay.ms": "100",
}


class TieredSide(Side):
    """One of the two, and the directory that is its object store."""

    def __init__(self, name: str, address: tuple[str, int], store: Path) -> None:
        super().__init__(name, address)
        self.store = store
        self.epochs: dict[int, int] = {}
        """Leader epochs by their names."""

    def segments(self, topic: str) -> list[int]:
        """The first offsets of what is in the store."""
        found = (path for path in self.store.rglob("*.log") if any(topic in part for part in path.parts))
        return sorted(int(re.match(r"\d+", path.name)[0]) for path in found)  # type: ignore[index]

    def epoch_named(self, epoch: int) -> int:
        names = {each: name for name, each in self.epochs.items()}
        return names.get(epoch, epoch)


class TieredLife:
    """One topic of one partition. `run` raises AssertionError at the first answer that differs, with what led to
    it."""

    def __init__(self, seed: int, sides: tuple[TieredSide, TieredSide], *, transactions: bool) -> None:
        self.source = Random(seed)
        self.sides = sides
        self.topic = f"life-{seed}"
        self.transactions = transactions
        self.began_ms = int(time.time() * 1000)
        self.time_ms = self.began_ms - OLD_MS
        self.starts: list[int] = []
        """The first offset of each batch, markers among them."""
        self.times: list[int] = []
        """By offset. A marker's is taken for the time at which the life began: later than every record."""
        self.end = 0
        self.newest_epochs = {side.name: -1 for side in sides}
        """Of the topic's leaders that have been seen, by the sides' names."""
        self.trace: list[str] = []
        self.compared = 0

    # What happens

    def make(self) -> None:
        configs = [{"name": name, "value": value} for name, value in CONFIG.items()]
        topic = {"name": self.topic, "num_partitions": 1, "replication_factor": 1, "configs": configs}
        self._tell("CreateTopics", 5, {"topics": [topic], "timeout_ms": 10_000})
        if self.transactions:
            self._tell("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": [self.topic]})
        self.see_epoch()

    def see_epoch(self) -> None:
        """A leader epoch begins on both sides: from now on it is called by its number."""
        for side in self.sides:
            self._until(f"{side.name} tells who leads now", partial(self._sees_epoch, side))

    def _sees_epoch(self, side: TieredSide) -> bool:
        """Kafka tells of a topic, and of its leader, some time after it has answered what made it."""
        (topic,) = side.ask("Metadata", 12, {"topics": [{"name": self.topic}]})["topics"]
        led = [each["leader_epoch"] for each in topic["partitions"] if each["leader_id"] >= 0]
        if not led or led[0] <= self.newest_epochs[side.name]:
            return False
        self.newest_epochs[side.name] = side.epochs[len(side.epochs)] = led[0]
        return True

    def grow(self, batches: int) -> None:
        """So many more batches, some of them in transactions of one to three, which end one way or the other."""
        self.trace.append(f"grow {batches} from {self.end}")
        while batches > 0:
            count = self.source.randint(1, 3)
            if self.transactions and self.source.random() < 0.4:
                self._transaction(count, committed=self.source.random() < 0.5)
            else:
                for _ in range(count):
                    self._produce({})
            batches -= count

    def _produce(self, producers: dict[str, dict[str, Plain]]) -> None:
        """`producers` are those of a transaction by the sides' names."""
        count = self.source.randint(1, 4)
        self.time_ms += self.source.randint(-500, 60_000)
        values = [
            (b"%d" % (self.end + number), self.source.randbytes(self.source.randint(5, 100)).hex().encode(), ())
            for number in range(count)
        ]
        codec = self.source.choice((0, 0, 1))
        at = []
        for side in self.sides:
            options = producers.get(side.name, {})
            batch = Batch(*values, timestamp=self.time_ms, codec=codec, **options).build()
            data = [{"name": self.topic, "partition_data": [{"index": 0, "records": batch}]}]
            name = self.topic if options else None
            body = {"transactional_id": name, "acks": -1, "timeout_ms": 5000, "topic_data": data}
            answer = side.ask("Produce", PRODUCE, body)
            assert not any(codes_of(answer)), (side.name, answer)
            at.append(answer["responses"][0]["partition_responses"][0]["base_offset"])
        assert at == [self.end, self.end], f"{self.topic}: a batch is at {at}"
        self.starts.append(self.end)
        self.times += [self.time_ms + number for number in range(count)]
        self.end += count

    def _transaction(self, batches: int, *, committed: bool) -> None:
        named: dict[str, dict[str, Plain]] = {}
        for side in self.sides:
            told = side.ask("InitProducerId", 3, {"transactional_id": self.topic, "transaction_timeout_ms": 60_000})
            named[side.name] = {"producer_id": told["producer_id"], "producer_epoch": told["producer_epoch"]}
            asked = {"transactional_id": self.topic, "topics": [{"name": self.topic, "partitions": [0]}]}
            body = {f"v3_and_below_{name}": value for name, value in (asked | named[side.name]).items()}
            assert not any(codes_of(side.ask("AddPartitionsToTxn", ADD_PARTITIONS, body)))
        sequence = 0
        for _ in range(batches):
            before = self.end
            transactional = {"base_sequence": sequence, "is_transactional": True}
            self._produce({name: each | transactional for name, each in named.items()})
            sequence += self.end - before
        for side in self.sides:
            ending = {"transactional_id": self.topic, "committed": committed} | named[side.name]
            assert not any(codes_of(side.ask("EndTxn", END_TXN, ending)))
        self.starts.append(self.end)
        self.times.append(self.began_ms)
        self.end += 1
        self._until("the markers are written", lambda: all(self._stable(side) == self.end for side in self.sides))

    def _stable(self, side: TieredSide) -> int:
        return int(self._offset(side, LATEST, 1)["offset"])

    def delete_records(self, offset: int) -> None:
        """Both tell where the log begins now, or why not."""
        self.trace.append(f"delete below {offset}")
        partitions = [{"partition_index": 0, "offset": offset}]
        body = {"topics": [{"name": self.topic, "partitions": partitions}], "timeout_ms": 10_000}
        self._compare(f"DeleteRecords {offset}", {side.name: side.ask("DeleteRecords", 2, body) for side in self.sides})

    def configure(self, **values: str) -> None:
        """Configurations by Kafka's names, with underscores for dots."""
        named = {name.replace("_", "."): value for name, value in values.items()}
        self.trace.append(f"configure {named}")
        configs = [{"name": name, "config_operation": 0, "value": value} for name, value in named.items()]
        resources = [{"resource_type": 2, "resource_name": self.topic, "configs": configs}]
        self._tell("IncrementalAlterConfigs", 1, {"resources": resources})

    def delete(self) -> None:
        """The topic goes, and with it what is in both stores."""
        self._tell("DeleteTopics", 5, {"topic_names": [self.topic], "timeout_ms": 10_000})
        self._until("the stores are empty", lambda: not any(side.segments(self.topic) for side in self.sides))

    # What is told

    def settle(self) -> None:
        """Until both have copied, and deleted from disk and store, the same, and nothing more happens for a while."""
        seen, since = {side.name: self._tiers(side) for side in self.sides}, time.monotonic()
        deadline = since + SETTLED_SECONDS_MAX
        while len(set(seen.values())) > 1 or time.monotonic() < since + ALIKE_SECONDS:
            steps = " | ".join(self.trace)
            assert time.monotonic() < deadline, f"{self.topic}: both tiers do not get alike: {seen} after {steps}"
            time.sleep(PAUSE_SECONDS)
            told = {side.name: self._tiers(side) for side in self.sides}
            if told != seen:
                seen, since = told, time.monotonic()

    def _tiers(self, side: TieredSide) -> tuple[Plain, ...]:
        told = (self._offset(side, time_ms, 0)["offset"] for time_ms in (EARLIEST, EARLIEST_LOCAL, LATEST_TIERED))
        return *told, *side.segments(self.topic)

    def look(self) -> tuple[int, int, int]:
        """Everything is asked of both, and has to be the same. Returns where the log begins, where the part on the
        disk does, and the last offset in the store."""
        self.settle()
        start, local, tiered, *_ = self._tiers(self.sides[0])
        self.trace.append(f"tiers {start} {local} {tiered} of {self.end}")
        for level in BOTH_LEVELS:
            # Kafka looks for the largest timestamp on the disk alone, and tells -1 where nothing is left there; ours
            # tells which record it is.
            unlike = (MAX_TIMESTAMP,) if local == self.end else ()
            for time_ms in (each for each in NAMED_TIMES if each not in unlike):
                self._compare_of(f"ListOffsets {time_ms} at {level}", self._offset, time_ms, level)
            for time_ms in self._times_between():
                if self._kafka_passes_over_the_store(time_ms, start, tiered):
                    self._see_first(time_ms, level, {"ours": start, "kafka": local})
                else:
                    self._compare_of(f"ListOffsets {time_ms} at {level}", self._offset, time_ms, level)
            for offset in self._offsets_between(start, local, tiered):
                self._compare_of(f"Fetch {offset} at {level}", self._fetched, offset, level)
        for name in range(-1, len(self.sides[0].epochs) + 1):
            self._compare_of(f"OffsetForLeaderEpoch {name}", self._epoch_end, name)
        for offset in (start, self.source.randint(start, self.end)):
            for isolation in ("read_uncommitted", "read_committed"):
                self._compare_of(f"read {offset} {isolation}", self._read, offset, isolation)
        return start, local, tiered

    def _times_between(self) -> list[int]:
        """Of records, beside them, before the first and after the last; and later than any marker."""
        times = [each for each in self.times if each < self.began_ms]
        chosen = self.source.sample(times, min(20, len(times)))
        beside = [each + self.source.randint(-3, 3) for each in chosen]
        return [0, *chosen, *beside, max(times), max(times) + 1, self.began_ms + 24 * HOUR_MS]

    def _kafka_passes_over_the_store(self, time_ms: int, start: int, tiered: int) -> bool:
        """Kafka looks for a time in one segment of the store, the first that is said to have something so late. Where
        the log begins within that segment, behind all of it that is so late, it goes on with the disk, whatever the
        other segments have (RemoteLogManager.findOffsetByTimestamp). Ours goes on with the next segment."""
        borders = [*self.sides[0].segments(self.topic), tiered + 1]
        for first, end in pairwise(borders):
            if first <= start < end:
                late = [offset for offset in range(first, end) if self.times[offset] >= time_ms]
                return bool(late) and late[-1] < start
        return False

    def _see_first(self, time_ms: int, level: int, searched_from: dict[str, int]) -> None:
        """Each tells the first record that is not earlier, of those that it searches."""
        told = {side.name: self._offset(side, time_ms, level)["offset"] for side in self.sides}
        expected = {
            name: next((each for each in range(start, self.end) if self.times[each] >= time_ms), -1)
            for name, start in searched_from.items()
        }
        steps = " | ".join(self.trace)
        assert told == expected, f"{self.topic}, ListOffsets {time_ms}: {told} and not {expected} after {steps}"
        self.compared += 1

    def _offsets_between(self, start: int, local: int, tiered: int) -> list[int]:
        """Of batches and within them, at the borders of the tiers, below the first and beyond the last."""
        edges = [each + more for each in (0, start, local, tiered, self.end) for more in (-1, 0, 1)]
        return sorted({*self.starts, *(each for each in edges if each >= 0), *self.source.sample(range(self.end), 10)})

    def _offset(self, side: TieredSide, time_ms: int, level: int) -> dict[str, Plain]:
        partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": time_ms}
        topics = [{"name": self.topic, "partitions": [partition]}]
        body = {"replica_id": -1, "isolation_level": level, "topics": topics, "timeout_ms": 5000}
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while True:
            (told,) = side.ask("ListOffsets", LIST_OFFSETS, body)["topics"][0]["partitions"]
            # Kafka, whose readers are late on a busy machine, tells its clients to ask again.
            is_late = side.name == "kafka" and name_of(told["error_code"]) == "REQUEST_TIMED_OUT"
            if not is_late or time.monotonic() > deadline:
                break
        if time_ms == LATEST_TIERED and not side.segments(self.topic):
            # Kafka remembers the last that there was; ours tells that there is nothing, as KIP-1005 wants it.
            told |= {"offset": -1, "leader_epoch": -1}
        return {
            "error": name_of(told["error_code"]),
            "offset": told["offset"],
            "timestamp": "a marker's" if told["timestamp"] >= self.began_ms else told["timestamp"],
            "epoch": side.epoch_named(told["leader_epoch"]),
        }

    def _fetched(self, side: TieredSide, offset: int, level: int) -> Plain:
        """The first batch that is told at an offset, and which transactions a reader of it takes for aborted."""
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1, "current_leader_epoch": -1}
        body = {
            "replica_id": -1,
            "max_wait_ms": 100,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": level,
            "session_epoch": -1,
            "topics": [{"topic": self.topic, "partitions": [partition | {"last_fetched_epoch": -1}]}],
        }
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while True:
            (told,) = side.ask("Fetch", FETCH, body)["responses"][0]["partitions"]
            # A tier that takes long answers later; in the end there is nothing to wait for.
            if told["records"] or told["error_code"] or offset >= told["high_watermark"] or time.monotonic() > deadline:
                break
        batches = [self._batch(side, each) for each in (told["records"] or ())[:1]]
        aborted = [each["first_offset"] for each in told["aborted_transactions"] or ()]
        ends = {name: told[name] for name in ("high_watermark", "last_stable_offset", "log_start_offset")}
        return {
            "error": name_of(told["error_code"]),
            "batches": batches,
            "aborted": sorted(each for each in aborted if batches and each <= batches[0]["last_offset"]),
            **ends,
        }

    def _batch(self, side: TieredSide, batch: dict[str, Plain]) -> dict[str, Plain]:
        """Without what each side has of its own."""
        plain = batch | {"leader_epoch": side.epoch_named(batch["leader_epoch"])}
        if batch["max_timestamp"] >= self.began_ms:
            plain["max_timestamp"] = "a marker's"
            plain["records"] = [each | {"timestamp": "a marker's", "value": None} for each in batch["records"]]
        return plain

    def _epoch_end(self, side: TieredSide, name: int) -> Plain:
        epoch = side.epochs.get(name, name if name < 0 else max(side.epochs.values()) + 7)
        partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        body = {"replica_id": -1, "topics": [{"topic": self.topic, "partitions": [partition]}]}
        (told,) = side.ask("OffsetForLeaderEpoch", 4, body)["topics"][0]["partitions"]
        return name_of(told["error_code"]), side.epoch_named(told["leader_epoch"]), told["end_offset"]

    def _read(self, side: TieredSide, offset: int, level: str) -> list[tuple[int, bytes]]:
        """What an unmodified consumer gets from an offset to the end."""
        settings = {
            "bootstrap.servers": "{}:{}".format(*side.address),
            "group.id": "reads",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "max.partition.fetch.bytes": 4000,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(self.topic, 0, offset)])
        found: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        try:
            while True:
                assert time.monotonic() < deadline, f"{side.name}: {self.topic} has no end from {offset} on"
                for message in consumer.consume(500, 0.2):
                    if message.error() is not None:
                        return found
                    found.append((int(message.offset()), bytes(message.value())))
        finally:
            consumer.close()

    # Asking and comparing

    def _tell(self, api: str, version: int, body: dict[str, Plain]) -> None:
        for side in self.sides:
            answer = side.ask(api, version, body)
            assert not any(codes_of(answer)), (side.name, answer)

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while not holds():
            assert time.monotonic() < deadline, f"{self.topic}: not so: {what}, after {' | '.join(self.trace)}"
            time.sleep(PAUSE_SECONDS)

    def _compare_of(self, label: str, told: Callable[..., Plain], *arguments: Plain) -> None:
        self._compare(label, {side.name: told(side, *arguments) for side in self.sides})

    def _compare(self, label: str, told: dict[str, Plain]) -> None:
        ours, kafka = told["ours"], told["kafka"]
        steps = " | ".join(self.trace)
        assert ours == kafka, f"{self.topic}, {label}:\n  ours {ours}\n kafka {kafka}\n after {steps}"
        self.compared += 1
