"""Writes the dead letters of share groups (KIP-1191): implements `kraft.share.dead_letters.DeadLetters`.

A letter goes to the partition of the dead letter topic whose number is that of the record's partition, modulo the
number of partitions. It is sent to the leader in an ordinary Produce request with acks=all, even if this broker is the
leader. So it has the checks of any record, and the broker's principal needs the permission Write, which a super user
has. The topic is created if the configuration permits that.

Transient errors are retried with growing pauses for as long as this broker leads the share partition. A letter that
fails permanently is logged and counted. Its record stays in its topic.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

import trio

from kraft.common.config.dynamic.topic_config import effective_topic_config
from kraft.common.errors import ApiError, KraftError, ProtocolError
from kraft.common.logging import Logger
from kraft.coordinator.share.share_state import SharePartitionKey
from kraft.metadata.metadata_cache import MetadataCache
from kraft.protocol.error_codes import ErrorCode, message_of, name_of
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.protocol.records.record import Record
from kraft.protocol.records.record_batch import RecordBatch
from kraft.replication.partition import CONSUMER, READ_UNCOMMITTED, Partition
from kraft.replication.replica_manager import ReplicaManager
from kraft.replication.topic_configs import ConfigView
from kraft.rpc_client.backoff import Backoff
from kraft.rpc_client.connection import Disconnected, UnsupportedApi
from kraft.server.broker_channel import BrokerChannel
from kraft.share.dead_letters import (
    ENABLED,
    DeadLetters,
    GivenUp,
    Letter,
    Source,
    build_letters,
    letters_of,
    refusal_of,
)
from kraft.share.fetched_batches import batches_in_memory, read_batches
from kraft.share.share_group_settings import ShareGroupSettings
from kraft.world.ports import World
from kraft.world.turns import Turn

ALL_REPLICAS: Final = -1
RETRY_SECONDS: Final = 1.0
RETRY_SECONDS_MAX: Final = 30.0
PRODUCE_TIMEOUT_MS: Final = 30_000
"""Timeout of a Produce. These three values are Kafka's, which has no configuration for them."""
ATTEMPTS_UNREPORTED: Final = 4
"""The number of failed attempts that are not logged. Later ones are. Kafka gives up after the fifth."""
WRITTEN_AT_ONCE: Final = 10
"""Batches of letters in memory. A batch and the records copied into it have at most `max.message.bytes` of the topic
each, unless one record is larger."""
READ_BYTES_MAX: Final = 1 << 20
"""Limit of one read of the records to copy, unless one batch is larger."""
DECOMPRESSED_BYTES_MAX: Final = 4 << 20
"""Records of batches that are larger when decompressed are not copied."""
COUNTED_GROUPS_MAX: Final = 1_000
OTHER_GROUPS: Final = "(other)"
"""The name under which groups beyond COUNTED_GROUPS_MAX are counted together."""
PASSING: Final = frozenset(
    (
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Transient errors, after which a letter is written again. Kafka retries only NOT_LEADER_OR_FOLLOWER and failures of
the network."""
OF_ONE_LETTER: Final = frozenset(
    (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
)
"""Refusals of a batch that may be due to one of its records: for example a compacted topic takes no record without a
key."""


class _Target(NamedTuple):
    """A partition of a dead letter topic."""

    topic: str
    topic_id: bytes
    partition: int
    leader_id: int
    bytes_max: int


class _Refused(Exception):
    """Raised if a batch of letters is refused. `count` letters were in it."""

    def __init__(self, problem: ApiError, count: int) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.count = count


class DeadLetterCounts:
    """The letters of each group since the start of the node."""

    def __init__(self) -> None:
        self.written: dict[str, int] = {}
        self.failed: dict[str, int] = {}

    def add(self, counts: dict[str, int], group_id: str, count: int) -> None:
        if group_id not in counts and len(counts) >= COUNTED_GROUPS_MAX:
            group_id = OTHER_GROUPS
        counts[group_id] = counts.get(group_id, 0) + count


class DeadLetterWriter(DeadLetters):
    """Writes the dead letters of the share partitions that one broker leads. `settings` returns the present settings of
    a group. `create_topic` creates a dead letter topic, and returns why it does not exist yet, if so."""

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        configs: ConfigView,
        settings: Callable[[str], ShareGroupSettings],
        create_topic: Callable[[str], Awaitable[ApiError | None]],
        channel: BrokerChannel,
        world: World,
        log: Logger,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._configs = configs
        self._settings = settings
        self._create_topic = create_topic
        self._channel = channel
        self._clock = world.clock
        self._chance = world.random.stream("dead-letters")
        self._log = log
        self._memory = trio.Semaphore(WRITTEN_AT_ONCE)
        self.counts = DeadLetterCounts()

    def close(self) -> None:
        """Close the connections. Letters that wait for an answer fail, and are written again."""
        self._channel.close()

    async def write(self, key: SharePartitionKey, partition: Partition, given_up: Sequence[GivenUp]) -> None:
        """See the port."""
        left = letters_of(given_up)
        one_by_one = 0
        while left:
            try:
                written = await self._write_some(key, partition, left[:1] if one_by_one else left)
            except _Refused as refused:
                if refused.problem.code in OF_ONE_LETTER:
                    if refused.count > 1:
                        one_by_one = refused.count
                        continue
                    failed = left[:1]
                else:
                    failed = left
                self._report(key, partition, failed, refused.problem)
                written = len(failed)
            else:
                self.counts.add(self.counts.written, key.group_id, written)
            one_by_one = max(0, one_by_one - written)
            left = left[written:]

    async def _write_some(self, key: SharePartitionKey, partition: Partition, letters: Sequence[Letter]) -> int:
        """Write a batch with the first letters. Returns their number. Raises _Refused."""
        backoff = Backoff(self._chance, RETRY_SECONDS, RETRY_SECONDS_MAX)
        for attempt in itertools.count(1):
            count = len(letters)
            try:
                target = await self._target(key.group_id, partition.index)
                async with self._memory:
                    batch, count = await self._build(key.group_id, partition, target, letters)
                    await self._produce(target, batch)
                return count
            except ApiError as problem:
                if problem.code not in PASSING:
                    raise _Refused(problem, count) from problem
                if attempt > ATTEMPTS_UNREPORTED:
                    self._log.warning(
                        "dead letters wait until they can be written",
                        group=key.group_id,
                        topic=partition.topic,
                        partition=partition.index,
                        letters=len(letters),
                        attempts=attempt,
                        error=problem.message,
                    )
            await self._clock.sleep(backoff.next())
        raise AssertionError("attempts go on until one returns or raises")

    async def _target(self, group_id: str, index: int) -> _Target:
        """Return where a group's letters of the partitions of this number go. Creates the topic if it does not exist.
        Raises ApiError: INVALID_CONFIG if no topic may be used."""
        name = self._settings(group_id).letter_topic
        self._check(group_id, name)
        if self._metadata.image.topics.by_name(name) is None:
            refusal = await self._create_topic(name)
            if refusal is not None:
                raise ApiError(refusal.code, f"{name} cannot be created: {refusal.message or message_of(refusal.code)}")
        image = self._metadata.image
        topic = image.topics.by_name(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} was deleted")
        bytes_max = self._check(group_id, name)
        to = index % len(topic.partitions)
        leader = self._metadata.leader_of(name, to)
        if leader is None or leader[0] < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{to} has no leader")
        return _Target(name, image.topics.id_by_name[name], to, leader[0], bytes_max)

    def _check(self, group_id: str, name: str) -> int:
        """Check that the topic may be used, or created. Returns its `max.message.bytes`. Raises ApiError
        INVALID_CONFIG."""
        image = self._metadata.image
        broker = self._configs.effective(image)
        values = effective_topic_config(dict(image.configs.topic(name).items()), broker)
        refusal = refusal_of(
            group_id,
            name,
            is_enabled=None if image.topics.by_name(name) is None else values[ENABLED] is True,
            may_create=broker.flag("errors.deadletterqueue.auto.create.topics.enable"),
            prefix=broker.text("errors.deadletterqueue.topic.name.prefix"),
        )
        if refusal is not None:
            raise ApiError(ErrorCode.INVALID_CONFIG, refusal)
        bytes_max = values["max.message.bytes"]
        assert isinstance(bytes_max, int)
        return bytes_max

    async def _build(
        self, group_id: str, partition: Partition, target: _Target, letters: Sequence[Letter]
    ) -> tuple[bytes, int]:
        """Build a batch with as many of the first letters as fit. Returns it and their number."""
        copies: dict[int, Record] = {}
        if self._settings(group_id).copies_records:
            letters, copies = await self._copies(partition, letters, target.bytes_max)
        source = Source(group_id, partition.topic, partition.index)
        return build_letters(source, letters, copies, self._clock.wall_ms(), target.bytes_max)

    async def _copies(
        self, partition: Partition, letters: Sequence[Letter], bytes_max: int
    ) -> tuple[Sequence[Letter], dict[int, Record]]:
        """Return the records of the first letters, of about `bytes_max`, and these letters. Records that are not found
        or not readable are left out: their letters have headers only."""
        wanted = {letter.offset for letter in letters}
        last = letters[-1].offset
        found: dict[int, Record] = {}
        size, position = 0, letters[0].offset
        turn = Turn()
        while position <= last:
            batches = await self._read(partition, position)
            if not batches:
                break
            for batch in batches:
                for record in _records_of(batch, position, last):
                    if record.offset in wanted:
                        size += len(record.key or b"") + len(record.value or b"")
                        if found and size > bytes_max:
                            return [letter for letter in letters if letter.offset < record.offset], found
                        found[record.offset] = record
                    if turn.is_over():
                        await turn.next()
                position = batch.last_offset + 1
                if position > last:
                    break
            position = next((letter.offset for letter in letters if letter.offset >= position), last + 1)
        return letters, found

    async def _read(self, partition: Partition, offset: int) -> list[RecordBatch]:
        """Read some batches from `offset` on, from the log or from the remote tier. A failure is logged, and returns an
        empty list."""
        try:
            try:
                data = partition.read(
                    offset, READ_BYTES_MAX, READ_UNCOMMITTED, min_one_message=True, replica_id=CONSUMER
                )
                return read_batches(data, READ_BYTES_MAX)
            except ApiError as problem:
                remote = self._replicas.remote
                if problem.code != ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE or remote is None:
                    raise
                tiered = await remote.reads.fetch(
                    partition, offset, READ_BYTES_MAX, min_one_message=True, committed=False
                )
                return batches_in_memory(bytes(tiered.records), READ_BYTES_MAX)
        except (KraftError, OSError) as problem:
            self._log.warning(
                "records not copied to dead letters", partition=str(partition), offset=offset, error=str(problem)
            )
            return []

    async def _produce(self, target: _Target, batch: bytes) -> None:
        """Write a batch. Raises ApiError."""
        name, topic_id, index, leader_id, _ = target
        data = TopicProduceData(
            name=name, topic_id=topic_id, partition_data=[PartitionProduceData(index=index, records=batch)]
        )
        request = ProduceRequest(acks=ALL_REPLICAS, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])
        try:
            response: ProduceResponse = await self._channel.send(leader_id, request)
        except ApiError:
            raise
        except (Disconnected, TimeoutError, UnsupportedApi, KraftError) as problem:
            raise ApiError(
                ErrorCode.NETWORK_EXCEPTION, f"broker {leader_id}: {str(problem) or type(problem).__name__}"
            ) from problem
        results = [each for topic in response.responses for each in topic.partition_responses]
        if len(results) != 1:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"broker {leader_id} answered without a result")
        code = results[0].error_code
        if code != ErrorCode.NONE:
            reason = results[0].error_message or message_of(code)
            raise ApiError(code, f"broker {leader_id}, {name}-{index}: {name_of(code)}: {reason}")

    def _report(
        self, key: SharePartitionKey, partition: Partition, letters: Sequence[Letter], problem: ApiError
    ) -> None:
        """Log and count letters that have failed permanently."""
        self.counts.add(self.counts.failed, key.group_id, len(letters))
        for first, last in _ranges(letter.offset for letter in letters):
            self._log.error(
                "dead letters not written: the records stay in their topic",
                group=key.group_id,
                topic=partition.topic,
                partition=partition.index,
                first_offset=first,
                last_offset=last,
                dead_letter_topic=self._settings(key.group_id).letter_topic,
                error=problem.message or name_of(problem.code),
            )


def _records_of(batch: RecordBatch, first: int, last: int) -> Iterable[Record]:
    """Yield the records of a batch from `first` to `last`; none of a batch that is not readable, or has no data."""
    if batch.is_control:
        return
    try:
        for record in batch.iterate_records(DECOMPRESSED_BYTES_MAX, first):
            if record.offset > last:
                return
            yield record
    except ProtocolError:
        return


def _ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Join consecutive offsets, which ascend, into ranges (first and last)."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] + 1 == offset:
            found[-1] = found[-1][0], offset
        else:
            found.append((offset, offset))
    return found
