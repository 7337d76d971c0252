"""Reading records of assigned partitions, in order, from positions that the caller owns.

`poll` asks the leaders of all assigned partitions at the same time and returns what the first answers hold; the
others' answers are left to the next poll. No task runs between two polls, and a position is exactly what the caller
has been given: it moves as the records are returned, and not if something fails before that. An answer to a position
that is another by now is dropped: that costs bandwidth, never records.

Beside a position stands the leader epoch of the record before it, as far as it is known. Each Fetch tells it, so
that a leader whose log differs from what was read (an unclean election lost records) says where they part, instead
of serving other records under offsets that we seem to have read (KIP-320, KIP-595).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kraft.admin.errors import Refused, check
from kraft.admin.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, offsets_at
from kraft.client.backoff import Backoff
from kraft.client.cluster import Cluster
from kraft.client.connection import Disconnected
from kraft.client.errors import LogTruncated, NoBroker
from kraft.client.fetched import visible_batches
from kraft.client.leader_fetches import Answer, LeaderFetches, Question
from kraft.client.resting import RestingPartitions, may_pass
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse, PartitionData
from kraft.protocol.records.record import CorruptBatch, Record

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
    """What came of asking every leader once.

    `moved` has the next offset, the epoch of the record before it, and the end of each partition that answered;
    `cut` the epoch and offset where a log parts from what was read; `troubles` what may pass by itself, `failures`
    what may not.
    """

    found: list[ConsumedRecord] = field(default_factory=list)
    moved: dict[TopicPartition, tuple[int, int, int]] = field(default_factory=dict)
    cut: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    outside: list[TopicPartition] = field(default_factory=list)
    troubles: dict[TopicPartition, Exception] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)

    def note(self, problem: Exception, partitions: Sequence[TopicPartition]) -> None:
        if may_pass(problem):
            self.troubles.update(dict.fromkeys(partitions, problem))
        else:
            self.failures.append(problem)


class Consumer:
    """Owned by one task. Raises on the first thing that trying again cannot help, and at the end of `poll`'s time
    what keeps all partitions from being read."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        reset: int | None = None,
        isolation: int = READ_UNCOMMITTED,
        max_bytes: int = MAX_BYTES,
        partition_bytes: int = PARTITION_BYTES,
    ) -> None:
        """`reset` is EARLIEST or LATEST: where to go on when a position is no longer in the log; None raises
        ApiError OFFSET_OUT_OF_RANGE instead.

        Where a log was cut below a position, reading goes on at the first offset that differs, as Java's does; None
        raises LogTruncated.
        """
        assert reset in (None, EARLIEST, LATEST)
        self.cluster = cluster
        self._reset = reset
        self._isolation = isolation
        self._max_bytes = max_bytes
        self._partition_bytes = partition_bytes
        self._positions: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._fetches = LeaderFetches(cluster)
        self._chance = cluster.world.random.stream("consumer")
        self._resting = RestingPartitions(self._chance)
        self._turn = 0

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The offset that comes next, for each assigned partition."""
        return self._positions

    @property
    def epochs(self) -> Mapping[TopicPartition, int]:
        """The leader epoch of the record before each position; partitions of which it is not known are not there."""
        return self._epochs

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """Where each partition ended for a reader (high watermark, or last stable offset) when it was fetched last."""
        return self._ends

    def assign(
        self, positions: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Read exactly these partitions, from these offsets on. `epochs` as the property of that name; those below 0
        are unknown.

        A consumer that is no longer used, while its cluster is, is assigned nothing: what it asked for and has not
        taken is kept until then, and its connections.
        """
        if positions:
            self._fetches.abandon()
        else:
            self._fetches.close()
        self._resting.clear()
        self._positions = dict(sorted(positions.items()))
        self._epochs = {
            partition: epoch
            for partition, epoch in (epochs or {}).items()
            if partition in self._positions and epoch >= 0
        }
        self._ends = {partition: end for partition, end in self._ends.items() if partition in self._positions}

    def unassign(self, partition: TopicPartition) -> None:
        """Stop reading this one. KeyError when it is not assigned."""
        del self._positions[partition]
        self._epochs.pop(partition, None)
        self._resting.end(partition)
        self._ends.pop(partition, None)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert partition in self._positions, f"{partition} is not assigned"
        self._positions[partition] = offset
        self._epochs.pop(partition, None)

    async def poll(self, seconds: float) -> list[ConsumedRecord]:
        """The next records, waiting at most about `seconds` for some; each partition's in order. Empty when none
        came in time."""
        clock = self.cluster.world.clock
        deadline = clock.now() + seconds
        backoff = Backoff(self._chance)
        while self._positions:
            left = max(0.0, deadline - clock.now())
            try:
                found = await self._round(deadline)
            except (Disconnected, TimeoutError, NoBroker, ApiError) as problem:
                if not may_pass(problem) or clock.now() >= deadline:
                    raise
                self.cluster.forget()
                await clock.sleep(min(backoff.next(), left))
                continue
            if found:
                return found
            if clock.now() >= deadline:
                problem_of_all = self._resting.problem_of_all(self._positions)
                if problem_of_all is not None:
                    raise problem_of_all
                return []
        return []

    async def _round(self, deadline: float) -> list[ConsumedRecord]:
        """Ask every leader for what does not rest; the first answer with records ends the waiting for the others."""
        clock = self.cluster.world.clock
        now = clock.now()
        ready = self._resting.ready(self._positions, now)
        wait = max(0.0, min(deadline, self._resting.next_ready(now)) - now)
        if not ready:
            await clock.sleep(wait)
            return []
        answers = _Answers()
        await self._gather(ready, min(MAX_WAIT_MS, int(wait * 1000)), answers)
        for problem in answers.failures:
            raise problem
        if answers.outside:
            await self._reset_positions(answers.outside)
        for partition, (epoch, end) in answers.cut.items():
            self._go_back(partition, epoch, end)
        if answers.troubles:
            self.cluster.forget()
        for partition in (*answers.moved, *answers.cut, *answers.outside):
            self._resting.end(partition)
        for partition, problem in answers.troubles.items():
            self._resting.begin(partition, problem, clock.now())
        # From here on nothing may fail, or come in between.
        for partition, (position, epoch, end) in answers.moved.items():
            self._positions[partition], self._ends[partition] = position, end
            if epoch >= 0:
                self._epochs[partition] = epoch
        return answers.found

    async def _gather(self, wanted: Sequence[TopicPartition], wait_ms: int, answers: _Answers) -> None:
        unled: dict[TopicPartition, ApiError] = {}
        by_leader = await self.cluster.by_leader(wanted, unled)
        for partition, problem in unled.items():
            answers.note(problem, [partition])

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

        await self._fetches.gather(by_leader, ask, take)

    async def _question(self, partitions: Sequence[TopicPartition], wait_ms: int) -> Question:
        """Partitions take turns at the front, for the first ones fill the answer (KIP-74)."""
        self._turn += 1
        turn = self._turn % len(partitions)
        topics: dict[str, FetchTopic] = {}
        names: dict[bytes, str] = {}
        for partition in (*partitions[turn:], *partitions[:turn]):
            topic = await self.cluster.topic(partition.topic)
            names[topic.topic_id] = topic.name
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
        return Question(request, names, {partition: self._positions[partition] for partition in partitions})

    def _take(self, response: FetchResponse, question: Question, answers: _Answers) -> None:
        check(response.error_code, "fetch")
        for topic in response.responses:
            name = topic.topic or question.names.get(bytes(topic.topic_id), "")
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
        """Raises CorruptBatch when that is what comes next; what lies before a damaged batch is taken."""
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

    async def _reset_positions(self, outside: list[TopicPartition]) -> None:
        if self._reset is None:
            partition = outside[0]
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE, str(partition), f"offset {self._positions[partition]} is not in the log"
            )
        for partition, offset in (
            await offsets_at(self.cluster, outside, self._reset, isolation=self._isolation)
        ).items():
            self.seek(partition, offset)

    def _go_back(self, partition: TopicPartition, epoch: int, end: int) -> None:
        """Go back to where the leader's log diverges from what we read. `epoch` is the last epoch that both share, and
        it ends at `end` in the leader's log."""
        position = self._positions[partition]
        if self._reset is None:
            raise LogTruncated(partition, position, self._epochs[partition], end, epoch)
        self._positions[partition], self._epochs[partition] = min(position, end), epoch


async def start_positions(
    cluster: Cluster, partitions: Iterable[TopicPartition], time: int, *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """Where to begin: EARLIEST, LATEST, or at a time in ms since 1970 (the end of a partition that has no record as
    late).

    With READ_COMMITTED the end is before the first transaction that is open: its records, if it commits, come after
    this.
    """
    partitions = list(partitions)
    found = await offsets_at(cluster, partitions, time, isolation=isolation)
    late = [partition for partition, offset in found.items() if offset < 0]
    return {**found, **(await offsets_at(cluster, late, LATEST, isolation=isolation) if late else {})}
