"""A world and a log in memory for tests of the runtime: trio's mock clock drives time, and a test says when the log
fails, waits or replicates."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import trio

from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.coordinator.group.consumer.settings import ConsumerGroupSettings
from kraft.coordinator.group.share.settings import ShareMembershipSettings
from kraft.coordinator.group.streams.settings import StreamsGroupSettings
from kraft.coordinator.group.topic_directory import TopicNames
from kraft.coordinator.shard import LogRecord, Marker, Producer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.control_record import control_key
from kraft.protocol.records.record import append_record
from kraft.storage.producers.verification import Verification


class TrioClock:
    """`world.ports.Clock` over trio's clock, which a test mocks."""

    def now(self) -> float:
        return trio.current_time()

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(trio.current_time() * 1000)

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def sleep_until(self, deadline: float) -> None:
        await trio.sleep_until(deadline)

    @contextmanager
    def move_on_at(self, deadline: float) -> Iterator[trio.CancelScope]:
        with trio.CancelScope(deadline=deadline) as scope:
            yield scope

    def move_on_after(self, seconds: float) -> Any:
        return self.move_on_at(trio.current_time() + seconds)


class SeededRandomness:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def stream(self, purpose: str) -> random.Random:
        return self._random

    def uuid(self, purpose: str) -> bytes:
        return self._random.randbytes(16)


class ThreadsAtOnce:
    """`world.ports.Threads` that does everything between two steps of the loop."""

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return function(*args)


class MemoryWorld:
    """As much of a world as coordinators use."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = TrioClock()
        self.random = SeededRandomness(seed)
        self.threads = ThreadsAtOnce()
        self.notes: list[dict[str, Any]] = []

    def log_sink(self, line: Any) -> None:
        self.notes.append(dict(line))


@dataclass(frozen=True)
class MemoryRecord:
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class MemoryBatch:
    base_offset: int
    entries: tuple[MemoryRecord, ...]
    is_control: bool = False
    producer: Producer | None = None

    @property
    def count(self) -> int:
        return len(self.entries)

    @property
    def is_transactional(self) -> bool:
        return self.producer is not None

    @property
    def producer_id(self) -> int:
        return -1 if self.producer is None else self.producer.producer_id

    @property
    def producer_epoch(self) -> int:
        return -1 if self.producer is None else self.producer.producer_epoch

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.entries)

    def records(self) -> tuple[MemoryRecord, ...]:
        return self.entries

    def payload(self) -> bytes:
        out = bytearray()
        for index, entry in enumerate(self.entries):
            append_record(out, index, 0, entry.key, entry.value, ())
        return bytes(out)


class MemoryLog:
    """`CoordinatorLog` in memory.

    The next append raises the first of `fail_next`; appends wait while `gate` is closed; the high watermark follows
    by itself unless `held`.
    """

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, list[MemoryBatch]] = {}
        self.watermarks: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}
        """Where logs start that do not start at 0; that may be within a batch, which is then read whole."""
        self.listeners: dict[TopicPartition, list[Callable[[int], None]]] = {}
        self.fail_next: list[KraftError] = []
        self.held = False
        self.gate: trio.Event | None = None
        self.takes_at_once = True
        """False: each append has to wait, if only for its turn."""
        self.read_gate: trio.Event | None = None
        self.batch_bytes_max = 1_048_588
        self.append_bytes_max = 104_857_600
        self.appends = 0
        self.epochs: list[int] = []
        self.open_transactions: set[tuple[TopicPartition, int]] = set()
        self.verifications: dict[tuple[TopicPartition, int], Verification] = {}

    def end_offset(self, partition: TopicPartition) -> int:
        batches = self.batches.get(partition)
        return batches[-1].next_offset if batches else 0

    async def append(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        content: Sequence[LogRecord] | Marker,
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> int:
        if self.gate is not None:
            await self.gate.wait()
        return self._append_content(partition, leader_epoch, content, producer)

    def append_at_once(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        content: Sequence[LogRecord] | Marker,
        timestamp_ms: int,
        producer: Producer | None = None,
    ) -> tuple[int, int] | None:
        if self.gate is not None or not self.takes_at_once:
            return None
        return self._append_content(partition, leader_epoch, content, producer), self.high_watermark(partition)

    def _append_content(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        content: Sequence[LogRecord] | Marker,
        producer: Producer | None,
    ) -> int:
        if not isinstance(content, Marker):
            return self._append(partition, leader_epoch, content, producer)
        record = control_key(int(content.committed)), struct.pack(">hi", 0, content.coordinator_epoch)
        owner = Producer(content.producer_id, content.producer_epoch)
        return self._append(partition, leader_epoch, [record], owner, is_control=True)

    def _append(
        self,
        partition: TopicPartition,
        leader_epoch: int,
        records: Sequence[LogRecord],
        producer: Producer | None = None,
        is_control: bool = False,
    ) -> int:
        if self.fail_next:
            raise self.fail_next.pop(0)
        if 61 + sum(len(key) + len(value or b"") for key, value in records) > self.append_bytes_max:
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
        if producer is not None:
            self._check_verified(partition, producer, is_control)
        self.appends += 1
        self.epochs.append(leader_epoch)
        entries = tuple(MemoryRecord(key, value) for key, value in records)
        batch = MemoryBatch(self.end_offset(partition), entries, is_control, producer)
        self.batches.setdefault(partition, []).append(batch)
        if not self.held:
            self.replicate(partition)
        return batch.next_offset - 1

    def start_verification(
        self, partition: TopicPartition, producer_id: int, producer_epoch: int, *, implicit: bool
    ) -> Verification | None:
        key = partition, producer_id
        if key in self.open_transactions:
            return None
        return self.verifications.setdefault(key, Verification(producer_epoch, -1, 0, implicit))

    def _check_verified(self, partition: TopicPartition, producer: Producer, is_control: bool) -> None:
        """As `ProducerStateManager.check` and `apply`."""
        key = partition, producer.producer_id
        waiting = self.verifications.get(key)
        if not is_control and key not in self.open_transactions and (waiting is None or waiting is not producer.guard):
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "not verified")
        self.verifications.pop(key, None)
        if is_control:
            self.open_transactions.discard(key)
        else:
            self.open_transactions.add(key)

    async def read(self, partition: TopicPartition, from_offset: int) -> Sequence[MemoryBatch]:
        if self.read_gate is not None:
            await self.read_gate.wait()
        await trio.lowlevel.checkpoint()
        if from_offset < self.log_start_offset(partition):
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{from_offset} is below the start of the log")
        return [batch for batch in self.batches.get(partition, []) if batch.next_offset > from_offset][:2]

    def batch_bounds(self, partition: TopicPartition) -> tuple[int, int]:
        return self.batch_bytes_max, self.append_bytes_max

    def log_start_offset(self, partition: TopicPartition) -> int:
        return self.starts.get(partition, 0)

    def high_watermark(self, partition: TopicPartition) -> int:
        return self.watermarks.get(partition, 0)

    def on_high_watermark(self, partition: TopicPartition, listener: Callable[[int], None]) -> Callable[[], None]:
        listeners = self.listeners.setdefault(partition, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def replicate(self, partition: TopicPartition, up_to: float = math.inf) -> None:
        """Let the high watermark rise."""
        self.watermarks[partition] = min(self.end_offset(partition), int(min(up_to, 2**62)))
        for listener in list(self.listeners.get(partition, [])):
            listener(self.watermarks[partition])


class Topics:
    """A `TopicDirectory` of topics with two partitions each, unless `counts` says otherwise; their ids are their names,
    padded."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.padding = b"."
        self.lives: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self.changes = 0
        self.seen: list[str] = []

    def delete_and_recreate(self) -> None:
        """All topics get other ids, without a word to the coordinator."""
        self.padding = bytes([self.padding[0] + 1])

    def recreate(self, name: str) -> None:
        """Create a topic that was deleted. It has another id than before."""
        self.names.append(name)
        self.lives[name] = self.lives.get(name, 0) + 1

    def topic_id(self, name: str) -> bytes | None:
        if name not in self.names:
            return None
        life = self.lives.get(name, 0)
        return name.encode().ljust(15, self.padding) + (bytes([life % 32]) if life else self.padding)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name in self.names if self.topic_id(name) == bytes(topic_id)), None)

    def partition_count(self, name: str) -> int:
        return self.counts.get(name, 2) if name in self.names else 0

    def all_names(self) -> TopicNames:
        return TopicNames(tuple(sorted(self.names)), self.names_version())

    def names_version(self) -> int:
        if self.seen != sorted(self.names):
            self.seen = sorted(self.names)
            self.changes += 1
        return self.changes

    def version(self) -> object:
        """A new one each time: whoever remembers one looks again, which must change nothing."""
        return object()


class PlainConsumerConfigs:
    """`ConsumerGroupConfigs` with the same settings for all groups, which a test may change."""

    def __init__(self, settings: ConsumerGroupSettings | None = None) -> None:
        self.settings = settings or ConsumerGroupSettings()

    def settings_of(self, group_id: str) -> ConsumerGroupSettings:
        return self.settings


class PlainStreamsConfigs:
    """`StreamsGroupConfigs` with the same settings for all groups, which a test may change. Assignments do not wait."""

    def __init__(self, settings: StreamsGroupSettings | None = None) -> None:
        self.settings = settings or StreamsGroupSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)

    def settings_of(self, group_id: str) -> StreamsGroupSettings:
        return self.settings


class PlainShareConfigs:
    """`ShareMembershipConfigs` with the same settings for all groups, which a test may change. Assignments do not wait
    for each other."""

    def __init__(self, settings: ShareMembershipSettings | None = None) -> None:
        self.settings = settings or ShareMembershipSettings(assignment_interval_ms=0)

    def settings_of(self, group_id: str) -> ShareMembershipSettings:
        return self.settings
