"""Read records of assigned partitions, in order, from positions that the caller owns.

`poll` sends a Fetch to the leaders of all assigned partitions in parallel, and returns the records of the first
responses. Later responses are returned by the next poll. No task runs between polls. A position advances exactly when
records are returned, and not if something fails before that. A response for a position that has changed meanwhile is
dropped: this costs bandwidth, never records.

With each position the leader epoch of the record before it is kept, if known. Each Fetch carries it. A leader whose log
differs from the records that were read (an unclean election lost records) then reports where the logs diverge. Without
it, the leader would return other records under offsets that were already read (KIP-320, KIP-595).

With each topic the topic id of the first Fetch is kept. A deleted topic is paused while the others are read. A
recreated topic of the same name has another id: its partitions start where `reset` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kraft.admin.errors import UNKNOWN_TOPIC, Refused, check
from kraft.admin.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, list_offsets_once, offsets_at
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse, PartitionData
from kraft.protocol.records.record import CorruptBatch, Record
from kraft.rpc_client.backoff import Backoff
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.errors import LogTruncated, NoBroker, TopicRecreated
from kraft.rpc_client.fetched import visible_batches
from kraft.rpc_client.leader_fetches import Answer, LeaderFetches, Question
from kraft.rpc_client.partition_backoff import PartitionBackoff, is_worth_waiting

MAX_WAIT_MS = 500
MAX_BYTES = 16 * 1024 * 1024
PARTITION_BYTES = 1024 * 1024


class ConsumedRecord(NamedTuple):
    partition: TopicPartition
    leader_epoch: int
    timestamp_type: int
    record: Record


@dataclass(slots=True)
class _Answers:
    """The results of one round of requests to every leader.

    - `moved`: the next offset, the epoch of the record before it, and the end, for each partition that answered
    - `cut`: the epoch and offset where a log diverges from the records that were read
    - `placed`: the start offset of each partition that had no position
    - `troubles`: errors that may pass; `failures`: errors that may not
    """

    found: list[ConsumedRecord] = field(default_factory=list)
    moved: dict[TopicPartition, tuple[int, int, int]] = field(default_factory=dict)
    cut: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    outside: list[TopicPartition] = field(default_factory=list)
    placed: dict[TopicPartition, int] = field(default_factory=dict)
    troubles: dict[TopicPartition, Exception] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)

    def note(self, problem: Exception, partitions: Sequence[TopicPartition]) -> None:
        if is_worth_waiting(problem):
            self.troubles.update(dict.fromkeys(partitions, problem))
        else:
            self.failures.append(problem)


class Consumer:
    """Reads assigned partitions. Owned by one task. `poll` raises the first error for which a retry is useless. It
    waits out other problems: unreachable brokers, partitions without a leader, topics that do not exist (any more, or
    yet)."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        reset: int | None = None,
        isolation: int = READ_UNCOMMITTED,
        max_bytes: int = MAX_BYTES,
        partition_bytes: int = PARTITION_BYTES,
    ) -> None:
        """`reset` is EARLIEST or LATEST: where reading continues when a position is no longer in the log, or the topic
        was deleted and recreated. With None, `poll` raises ApiError OFFSET_OUT_OF_RANGE or TopicRecreated instead.

        If a log was truncated below a position, reading continues at the first offset that differs, as in Java's
        consumer. With None, `poll` raises LogTruncated.
        """
        assert reset in (None, EARLIEST, LATEST)
        self.cluster = cluster
        self._reset = reset
        self._isolation = isolation
        self._max_bytes = max_bytes
        self._partition_bytes = partition_bytes
        self._positions: dict[TopicPartition, int] = {}
        self._unplaced: dict[TopicPartition, None] = {}
        """Assigned partitions whose start offset has to be looked up first."""
        self._ids: dict[str, bytes] = {}
        self._obstacle: Exception | None = None
        self.missed: ApiError | None = None
        """The error of a missing or recreated topic, since the owner last set this to None."""
        self._epochs: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._fetches = LeaderFetches(cluster)
        self._chance = cluster.world.random.stream("consumer")
        self._resting = PartitionBackoff(self._chance)
        self._turn = 0

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of each assigned partition. A partition whose start is not known yet is not included."""
        return self._positions

    @property
    def obstacle(self) -> Exception | None:
        """The error because of which no partition could be read at the end of the last `poll`, else None."""
        return self._obstacle

    @property
    def epochs(self) -> Mapping[TopicPartition, int]:
        """The leader epoch of the record before each position, for partitions where it is known."""
        return self._epochs

    @property
    def topic_ids(self) -> Mapping[str, bytes]:
        """The ids of the topics to which the positions belong, where known."""
        return self._ids

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """The end of each partition (high watermark, or last stable offset) at its last Fetch."""
        return self._ends

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int] | None = None,
        *,
        unplaced: Iterable[TopicPartition] = (),
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> None:
        """Read exactly these partitions, from these offsets on. `epochs` are the leader epochs of the records before
        the offsets; values below 0 mean unknown. `unplaced` partitions start where `reset` says. `topic_ids` are the
        ids of the topics to which the positions belong. A topic without an id there is the one that has the name now.

        To release a consumer while its cluster is still in use, assign nothing: pending responses and connections are
        kept until then.
        """
        self._unplaced = dict.fromkeys(sorted(unplaced))
        assert not self._unplaced or self._reset is not None, "without a reset each partition needs a position"
        if positions or self._unplaced:
            self._fetches.abandon()
        else:
            self._fetches.close()
        self._resting.clear()
        self._obstacle = None
        self._positions = dict(sorted(positions.items()))
        self._ids = dict(topic_ids or {})
        self._epochs = {
            partition: epoch
            for partition, epoch in (epochs or {}).items()
            if partition in self._positions and epoch >= 0
        }
        self._ends = {partition: end for partition, end in self._ends.items() if partition in self._positions}

    @property
    def assigned(self) -> list[TopicPartition]:
        """All assigned partitions, sorted, with or without a position."""
        return sorted((*self._positions, *self._unplaced))

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the assigned ones. Reading starts at the offset that `reset` selects."""
        assert self._reset is not None, "without a reset each partition needs a position"
        self._unplaced.update({each: None for each in partitions if each not in self._positions})

    def unassign(self, partition: TopicPartition) -> None:
        """Stop reading this partition. Raises KeyError if it is not assigned."""
        if partition in self._unplaced:
            del self._unplaced[partition]
        else:
            del self._positions[partition]
        self._epochs.pop(partition, None)
        self._resting.end(partition)
        self._ends.pop(partition, None)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert partition in self._positions or partition in self._unplaced, f"{partition} is not assigned"
        self._unplaced.pop(partition, None)
        self._positions[partition] = offset
        self._epochs.pop(partition, None)

    async def poll(self, seconds: float) -> list[ConsumedRecord]:
        """Return the next records, in order within each partition, waiting about `seconds` at most. Returns an empty
        list if none arrived in time; `obstacle` then holds the reason, if there is one. Raises errors for which a retry
        is useless, and NoBroker for a cluster that was never reached (`Cluster.is_hopeless`)."""
        clock = self.cluster.world.clock
        deadline = clock.now() + seconds
        backoff = Backoff(self._chance)
        self._obstacle = None
        while self._positions or self._unplaced:
            try:
                found = await self._round(deadline)
            except (Disconnected, TimeoutError, NoBroker, ApiError) as problem:
                if not is_worth_waiting(problem) or self.cluster.is_hopeless(problem):
                    raise
                self._forget([problem])
                self._obstacle = problem
                if clock.now() >= deadline:
                    return []
                await clock.sleep(min(backoff.next(), max(0.0, deadline - clock.now())))
                continue
            self._obstacle = None
            if found:
                return found
            if clock.now() >= deadline:
                self._obstacle = self._resting.problem_of_all((*self._positions, *self._unplaced))
                return []
        return []

    async def poll_or_tell(self, seconds: float) -> list[ConsumedRecord]:
        """Poll as `poll` does, but raise the `obstacle` at the end of the time."""
        found = await self.poll(seconds)
        if self._obstacle is not None:
            raise self._obstacle
        return found

    async def _round(self, deadline: float) -> list[ConsumedRecord]:
        """Send a Fetch to the leader of every partition that is not backing off. The first response with records ends
        the wait."""
        clock = self.cluster.world.clock
        now = clock.now()
        ready = self._resting.ready((*self._positions, *self._unplaced), now)
        wait = max(0.0, min(deadline, self._resting.next_ready(now)) - now)
        if not ready:
            await clock.sleep(wait)
            return []
        answers = _Answers()
        await self._gather(ready, min(MAX_WAIT_MS, int(wait * 1000)), answers)
        for problem in answers.failures:
            raise problem
        if answers.outside:
            await self._place(answers.outside, answers)
            for problem in answers.failures:
                raise problem
        for partition, offset in answers.placed.items():
            self.seek(partition, offset)
        for partition, (epoch, end) in answers.cut.items():
            self._go_back(partition, epoch, end)
        if answers.troubles:
            self._forget(answers.troubles.values())
        for partition in (*answers.moved, *answers.cut, *answers.placed):
            self._resting.end(partition)
        for partition, problem in answers.troubles.items():
            self._resting.begin(partition, problem, clock.now())
        # From here on nothing may fail, or come in between.
        for partition, (position, epoch, end) in answers.moved.items():
            self._positions[partition], self._ends[partition] = position, end
            if epoch >= 0:
                self._epochs[partition] = epoch
        return answers.found

    def _forget(self, problems: Iterable[Exception]) -> None:
        """Drop cached metadata that may be stale. If all problems are missing topics, drop only the entries of the
        assigned topics."""
        found_problems = list(problems)
        missing = [each for each in found_problems if isinstance(each, ApiError) and each.code in UNKNOWN_TOPIC]
        self.missed = missing[0] if missing else self.missed
        if len(missing) == len(found_problems):
            self.cluster.forget_topics({each.topic for each in (*self._positions, *self._unplaced)})
        else:
            self.cluster.forget()

    async def _gather(self, wanted: Sequence[TopicPartition], wait_ms: int, answers: _Answers) -> None:
        unled: dict[TopicPartition, ApiError] = {}
        by_leader = await self.cluster.by_leader(wanted, unled)
        for partition, problem in unled.items():
            answers.note(problem, [partition])
        self._notice_recreated(wanted)
        unplaced = [each for each in wanted if each in self._unplaced and each not in unled]
        if unplaced:
            await self._place(unplaced, answers)
            wait_ms = 0 if answers.placed else wait_ms
        placed = {
            leader: reading
            for leader, partitions in by_leader.items()
            if (reading := [each for each in partitions if each in self._positions])
        }

        async def ask(partitions: Sequence[TopicPartition]) -> Question:
            return await self._question(partitions, wait_ms)

        def take(partitions: Sequence[TopicPartition], question: Question | None, answer: Answer) -> bool:
            try:
                if isinstance(answer, Exception):
                    raise answer
                assert question is not None, "who answers was asked"
                self._take(answer, question, answers)
            except (KraftError, TimeoutError) as problem:
                answers.note(problem, partitions)
            return bool(answers.found or answers.outside or answers.cut)

        await self._fetches.gather(placed, ask, take)

    def _notice_recreated(self, wanted: Iterable[TopicPartition]) -> None:
        """Drop the positions of topics that were deleted and recreated: they mean nothing in the new topic. Raises
        TopicRecreated without a `reset`."""
        for name in sorted({each.topic for each in wanted}):
            topic = self.cluster.cached_topic(name)
            if topic is None or not any(topic.topic_id):
                continue  # It does not exist, or the brokers give no ids.
            if self._ids.setdefault(name, topic.topic_id) == topic.topic_id:
                continue
            if self._reset is None:
                raise TopicRecreated(name)
            self._ids[name] = topic.topic_id
            for partition in [each for each in self._positions if each.topic == name]:
                self.unassign(partition)
                self._unplaced[partition] = None

    async def _question(self, partitions: Sequence[TopicPartition], wait_ms: int) -> Question:
        """Build the Fetch for one leader. The first partition rotates, because the first ones fill the response
        (KIP-74)."""
        self._turn += 1
        turn = self._turn % len(partitions)
        topics: dict[str, FetchTopic] = {}
        names: dict[bytes, str] = {}
        ids: dict[str, bytes] = {}
        for partition in (*partitions[turn:], *partitions[:turn]):
            topic = await self.cluster.topic(partition.topic)
            names[topic.topic_id] = topic.name
            ids[topic.name] = topic.topic_id
            entry = topics.setdefault(topic.name, FetchTopic(topic=topic.name, topic_id=topic.topic_id))
            entry.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=topic.partition(partition.partition).leader_epoch,
                    fetch_offset=self._positions[partition],
                    last_fetched_epoch=self._epochs.get(partition, -1),
                    partition_max_bytes=self._partition_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation,
            topics=list(topics.values()),
        )
        return Question(request, names, ids, {partition: self._positions[partition] for partition in partitions})

    def _take(self, response: FetchResponse, question: Question, answers: _Answers) -> None:
        check(response.error_code, "fetch")
        for topic in response.responses:
            name = topic.topic or question.names.get(bytes(topic.topic_id), "")
            if self._ids.get(name) not in (None, question.ids.get(name)):
                continue  # It was asked of the topic that was deleted, or of the one recreated since.
            for data in topic.partitions:
                partition = TopicPartition(name, data.partition_index)
                if (
                    partition not in self._positions
                    or self._positions[partition] != question.positions.get(partition)
                    or partition in answers.moved
                ):
                    continue  # It was asked for at another position, or of a former leader.
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    answers.outside.append(partition)
                elif data.error_code != ErrorCode.NONE:
                    answers.note(Refused(data.error_code, str(partition)), [partition])
                elif data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0:
                    answers.cut[partition] = data.diverging_epoch.epoch, data.diverging_epoch.end_offset
                else:
                    self._take_partition(partition, data, answers)

    def _take_partition(self, partition: TopicPartition, data: PartitionData, answers: _Answers) -> None:
        """Accept the response of one partition. Records before a damaged batch are accepted. Raises CorruptBatch if the
        damaged batch comes first."""
        committed = self._isolation == READ_COMMITTED
        position, epoch = self._positions[partition], -1
        end = data.last_stable_offset if committed else data.high_watermark
        try:
            for batch, is_visible in visible_batches(
                data.records or b"", data.aborted_transactions if committed else None
            ):
                epoch = batch.partition_leader_epoch
                if is_visible:
                    timestamp_type = batch.timestamp_type
                    answers.found += [
                        ConsumedRecord(partition, epoch, timestamp_type, record)
                        for record in batch.iterate_records(from_offset=position)
                        if record.offset >= position
                    ]
                position = max(position, batch.next_offset)
        except CorruptBatch:
            if position == self._positions[partition]:
                raise
        answers.moved[partition] = position, epoch, end

    async def _place(self, partitions: Sequence[TopicPartition], answers: _Answers) -> None:
        """Make one attempt to look up the start offsets of partitions without a position, by `reset`."""
        if self._reset is None:
            partition = partitions[0]
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE, str(partition), f"offset {self._positions[partition]} is not in the log"
            )
        unled: dict[TopicPartition, ApiError] = {}
        by_leader = await self.cluster.by_leader(partitions, unled)
        found = await list_offsets_once(self.cluster, by_leader, self._reset, isolation=self._isolation)
        for leader, of_leader in by_leader.items():
            for partition in of_leader:
                offset = found.get(partition, NoBroker(f"broker {leader} does not answer"))
                if isinstance(offset, int):
                    answers.placed[partition] = offset
                else:
                    answers.note(offset, [partition])
        for partition, problem in unled.items():
            answers.note(problem, [partition])

    def _go_back(self, partition: TopicPartition, epoch: int, end: int) -> None:
        """Go back to where the leader's log diverges from the records that were read. `epoch` is the last common epoch,
        and it ends at `end` in the leader's log."""
        position = self._positions[partition]
        if self._reset is None:
            raise LogTruncated(partition, position, self._epochs[partition], end, epoch)
        self._positions[partition], self._epochs[partition] = min(position, end), epoch


async def start_positions(
    cluster: Cluster, partitions: Iterable[TopicPartition], time: int, *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """Return start offsets: EARLIEST, LATEST, or at a time in ms since 1970 (the partition's end if no record is that
    late).

    With READ_COMMITTED the end is before the first open transaction. If it commits, its records come after this
    position.
    """
    partitions = list(partitions)
    found = await offsets_at(cluster, partitions, time, isolation=isolation)
    late = [partition for partition, offset in found.items() if offset < 0]
    return {**found, **(await offsets_at(cluster, late, LATEST, isolation=isolation) if late else {})}
