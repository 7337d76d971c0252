"""Copy records from one cluster to another, each exactly once. Partitions, order, keys, values, headers and timestamps
are preserved.

The records of one poll of the source are written to the target in one transaction. The transaction also writes the
mirror's progress (progress.py) to its state topic. Opening the producer fences another mirror of the same name, and
ends the transaction that it left open. So the state read afterwards matches the copied records exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kraft.admin import topics
from kraft.admin.metadata import Topic
from kraft.admin.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, offsets_at
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.mirror.copies import Copies
from kraft.mirror.group_offsets import GroupOffsets
from kraft.mirror.mirror_config import MirrorConfig, MirrorFailed, Notice, Say, Step
from kraft.mirror.names import chosen_topics, state_topic, transactional_id
from kraft.mirror.progress import Progress, progress_key, read_progress
from kraft.mirror.sync_points import Point, noted
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.accumulator import Delivery
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.consumer import Consumer
from kraft.rpc_client.errors import DeadlinePassed, LogTruncated, NoBroker, TopicRecreated
from kraft.rpc_client.partition_backoff import is_worth_waiting, may_pass
from kraft.rpc_client.transactions import TransactionalProducer, open_transactional_producer

POLL_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 10.0
"""The interval at which a following mirror looks for new topics, partitions and group offsets."""
PAUSE_SECONDS: Final = 1.0
SOON_SECONDS: Final = 0.2
TAKEN_OVER: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class Outcome(NamedTuple):
    """The result of a run: `records` were copied, in `transactions` transactions."""

    topics: int
    partitions: int
    records: int
    transactions: int


class Mirror:
    """Copies records from a source to a target. Call `run` once."""

    def __init__(self, source: Cluster, target: Cluster, wish: MirrorConfig, say: Say) -> None:
        self._source = source
        self._target = target
        self._wish = wish
        self._say = say
        self._copies = Copies(source, target, wish, say)
        self._consumer = Consumer(
            source, isolation=READ_UNCOMMITTED if wish.read_uncommitted else READ_COMMITTED, reset=None
        )
        self._source_id = ""
        self._progress: dict[TopicPartition, Progress] = {}
        """The progress of all copied partitions, as in the target, or as its first transaction will write it."""
        self._left_out: dict[str, None] = {}
        """Topics already reported as left out."""
        self._has_chosen = self._is_following = False
        self._records = self._transactions = 0
        self._groups = None if wish.groups is None else GroupOffsets(source, target, wish.groups, self._place, say)

    async def run(self) -> Outcome:
        """Copy all records that existed at the start. A mirror that follows runs until it is cancelled, even if the
        clusters are unreachable for a while. Raises MirrorFailed, ApiError, DeadlinePassed, NoBroker."""
        while True:
            try:
                await self._session()
            except (Disconnected, TimeoutError, NoBroker, DeadlinePassed, ApiError) as problem:
                if isinstance(problem, ApiError) and problem.code in TAKEN_OVER:
                    raise MirrorFailed(
                        f"another mirror of the name {self._wish.name} has taken over, or a transaction took too long: "
                        "start it again if it is the only one"
                    ) from problem
                may_help = is_worth_waiting if self._is_following else may_pass
                if not self._wish.follow or not (isinstance(problem, DeadlinePassed) or may_help(problem)):
                    raise
                self._say(Notice(f"waiting: {problem}", is_warning=True))
                self._source.forget()
                self._target.forget()
                await self._source.world.clock.sleep(PAUSE_SECONDS)
            else:
                names = {each.topic for each in self._progress}
                return Outcome(len(names), len(self._progress), self._records, self._transactions)

    async def _session(self) -> None:
        """Copy, continuing from the progress in the target's state topic."""
        name = state_topic(self._wish.name)
        await self._copies.make_state(name)
        remembered = await recall(self._target, name)
        chosen = await self._choose(remembered)
        producer = open_transactional_producer(self._target, transactional_id(self._wish.name), codec=self._wish.codec)
        async with producer as sender:
            self._progress = {}
            self._consumer.assign({})
            await self._take_up(chosen, await recall(self._target, name))  # A mirror before it has ended by now.
            try:
                await (self._follow(sender) if self._wish.follow else self._copy_all(sender))
            finally:
                self._consumer.assign({})

    # What is copied

    async def _choose(self, remembered: Mapping[TopicPartition, Progress]) -> list[Topic]:
        """Return the source topics to copy, after creating them at the target. The copy of a recreated topic is not
        changed. Raises ApiError for a named topic that does not exist, unless it existed when the mirror started."""
        wish = self._wish
        metadata = await self._source.metadata(None if wish.pattern is not None else wish.topics)
        names = chosen_topics(metadata.topics, wish.topics, wish.pattern)
        if wish.follow and self._has_chosen:
            names = [each for each in names if each in metadata.topics]
        described = {**metadata.topics, **{each.name: each for each in await self._named(names, metadata.topics)}}
        self._source_id = metadata.cluster_id or ""
        target_id = (await self._target.metadata(())).cluster_id
        for each in names:
            if self._source_id == target_id and wish.target_topic(each) == each:
                raise MirrorFailed(f"{each} would be copied to itself: give --target-topic, --prefix or another --to")
        found = [described[each] for each in names]
        for each in self._left_out:
            self._copies.look_again(each)  # Its copy may have been deleted, so that it can be copied from now on.
        ids = {each.topic: progress.topic_id for each, progress in remembered.items()}
        others = {each.name for each in found if ids.get(each.name) not in (None, each.topic_id.hex())}
        await self._copies.make(found, others)
        self._has_chosen = True
        return found

    async def _named(self, names: Sequence[str], known: Iterable[str]) -> list[Topic]:
        missing = sorted({*names} - {*known})
        return await topics.describe_topics(self._source, missing) if missing else []

    async def _take_up(self, chosen: Sequence[Topic], remembered: dict[TopicPartition, Progress]) -> None:
        """Add the partitions that are not copied yet, starting at the progress of their copies."""
        fresh: list[TopicPartition] = []
        for topic in chosen:
            partitions = [each for each in topic.topic_partitions() if each not in self._progress]
            known = [remembered[each] for each in partitions if each in remembered]
            other = next((each for each in known if each.topic_id != topic.topic_id.hex()), None)
            if other is None:
                fresh += [each for each in partitions if each not in remembered]
                self._progress.update({each: remembered[each] for each in partitions if each in remembered})
            elif await self._is_empty(topic):
                self._left_out.pop(topic.name, None)
                what = f"topic {topic.name} is another one than was copied before"
                self._say(Notice(f"{what}, and its copy is empty: the copy starts over"))
                await self._copies.make([topic])
                fresh += partitions
            else:
                self._refuse(topic, other)
        ids = {topic.name: topic.topic_id.hex() for topic in chosen}
        if fresh:
            begins = await offsets_at(self._source, fresh, EARLIEST)
            ends = await offsets_at(self._target, [self._place(each) for each in fresh], LATEST)
            for each in fresh:
                point = Point(begins[each], ends[self._place(each)])
                if point.target:
                    place = self._place(each)
                    self._say(Notice(f"{place} holds {point.target} offsets already: the copy goes behind them", True))
                self._progress[each] = Progress(self._source_id, ids[each.topic], begins[each], -1, (point,))
        positions = self._consumer.positions
        if any(each not in positions for each in self._progress):
            self._assign()

    def _assign(self) -> None:
        """Read all copied partitions from their progress, and only from topics with the same id as before."""
        self._consumer.assign(
            {each: progress.offset for each, progress in self._progress.items()},
            {each: progress.epoch for each, progress in self._progress.items()},
            topic_ids={each.topic: bytes.fromhex(progress.topic_id) for each, progress in self._progress.items()},
        )

    async def _is_empty(self, topic: Topic) -> bool:
        """Whether the topic's copy holds no records. The copy may have fewer partitions."""
        there = await topics.describe_topic(self._target, self._wish.target_topic(topic.name))
        places = there.topic_partitions()
        begins = await offsets_at(self._target, places, EARLIEST)
        return begins == await offsets_at(self._target, places, LATEST)

    def _refuse(self, topic: Topic, other: Progress) -> None:
        """Reject a topic whose copy holds records of another topic. Raises MirrorFailed if the topic was named and the
        mirror is starting; otherwise the topic is skipped."""
        name, copy = topic.name, self._wish.target_topic(topic.name)
        what = "is in another cluster than" if other.source != self._source_id else "was deleted and recreated since"
        sentence = (
            f"topic {name} {what} the one that mirror {self._wish.name} has copied: copy it under another "
            f"--name, to another topic, or delete the copy, {copy}"
        )
        if name in self._wish.topics and not self._is_following:
            raise MirrorFailed(sentence)
        if name not in self._left_out:
            self._left_out[name] = None
            then = "until then" if self._wish.follow else "now"
            self._say(Notice(f"{sentence}. It is left out {then}.", is_warning=True))

    def _place(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._wish.target_topic(partition.topic), partition.partition)

    # Copying

    async def _copy_all(self, sender: TransactionalProducer) -> None:
        consumer = self._consumer
        isolation = READ_UNCOMMITTED if self._wish.read_uncommitted else READ_COMMITTED
        ends = await offsets_at(self._source, list(consumer.positions), LATEST, isolation=isolation)
        while True:
            for partition in [each for each, at in consumer.positions.items() if at >= ends[each]]:
                consumer.unassign(partition)
            if not consumer.positions:
                break
            if not await self._copy_some(sender):
                raise MirrorFailed(
                    f"{consumer.missed or 'a topic was deleted and recreated at the source'} while it was copied: "
                    "run the mirror again"
                )
        await self._keep_groups()

    async def _follow(self, sender: TransactionalProducer) -> None:
        clock = self._source.world.clock
        look_at = clock.now() + LOOK_SECONDS
        self._is_following = True
        while True:
            is_gone = False
            if self._consumer.positions:
                is_gone = not await self._copy_some(sender)
            else:
                await clock.sleep(POLL_SECONDS)
            if is_gone or clock.now() >= look_at:
                remembered = await recall(self._target, state_topic(self._wish.name))
                chosen = await self._choose(remembered)
                self._leave_out(chosen)
                await self._take_up(chosen, remembered)
                await self._keep_groups()
                look_at = clock.now() + LOOK_SECONDS

    def _leave_out(self, chosen: Sequence[Topic]) -> None:
        """Stop copying topics that the source no longer has."""
        ids = {topic.name: topic.topic_id.hex() for topic in chosen}
        gone = [each for each in self._progress if ids.get(each.topic) != self._progress[each].topic_id]
        ends = self._consumer.ends
        for name in sorted({each.topic for each in gone}):
            missed = sum(max(0, ends.get(each, 0) - self._progress[each].offset) for each in gone if each.topic == name)
            lost = f"; {missed} offsets of it at least were not copied" * bool(missed)
            self._say(Notice(f"topic {name} was deleted at the source: its copy stays as it is{lost}", is_warning=True))
            self._copies.look_again(name)
        for each in gone:
            del self._progress[each]
            if each in self._consumer.positions:
                self._consumer.unassign(each)

    async def _copy_some(self, sender: TransactionalProducer) -> bool:
        """Copy the records of the next poll in one transaction. Returns False if a source topic seems to be gone."""
        consumer = self._consumer
        consumer.missed = None
        try:
            found = await consumer.poll(POLL_SECONDS)
        except TopicRecreated:
            await self._source.world.clock.sleep(SOON_SECONDS)
            return False
        except ApiError as problem:
            if problem.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._skip_lost()
            return True
        except LogTruncated as problem:
            raise MirrorFailed(f"the copy has records that the source has lost since: {problem}") from problem
        if consumer.obstacle is not None and consumer.missed is None:
            raise consumer.obstacle
        moved = {
            each: replace(self._progress[each], offset=offset, epoch=consumer.epochs.get(each, -1))
            for each, offset in consumer.positions.items()
            if offset != self._progress[each].offset
        }
        if not moved:
            return consumer.missed is None
        async with sender.transaction() as transaction:
            last: dict[TopicPartition, Delivery] = {}
            for each in found:
                record, place = each.record, self._place(each.partition)
                last[each.partition] = await transaction.send(
                    place.topic,
                    record.value,
                    record.key,
                    partition=place.partition,
                    headers=record.headers,
                    timestamp=record.timestamp,
                )
            for partition, delivery in last.items():
                at = (await delivery.wait()).offset
                if at >= 0:
                    points = noted(moved[partition].points, Point(moved[partition].offset, at + 1))
                    moved[partition] = replace(moved[partition], points=points)
            state = state_topic(self._wish.name)
            for partition, progress in moved.items():
                await transaction.send(state, progress.value(), progress_key(partition), partition=0)
        self._progress.update(moved)
        self._records += len(found)
        self._transactions += 1
        behind = sum(max(0, consumer.ends.get(each, at) - at) for each, at in consumer.positions.items())
        self._say(Step(self._records, behind))
        return consumer.missed is None

    async def _skip_lost(self) -> None:
        """Continue after records that the source no longer holds. Raises MirrorFailed if the user did not allow it."""
        positions = self._consumer.positions
        begins = await offsets_at(self._source, list(positions), EARLIEST)
        lost = {each: begins[each] for each, at in sorted(positions.items()) if at < begins[each]}
        if not lost:
            raise MirrorFailed("the source ends before what was copied of it: records were lost there")
        told = ", ".join(f"{each} {positions[each]} to {begin - 1}" for each, begin in lost.items())
        if not self._wish.skip_lost:
            raise MirrorFailed(f"records are gone at the source that were not copied yet: {told}; --skip-lost goes on")
        self._say(Notice(f"records are gone at the source, and missing in the copy: {told}", is_warning=True))
        for each, begin in lost.items():
            self._consumer.seek(each, begin)

    async def _keep_groups(self) -> None:
        if self._groups is not None:
            await self._groups.keep({each: progress.points for each, progress in self._progress.items()})


async def recall(target: Cluster, name: str) -> dict[TopicPartition, Progress]:
    """Return the committed progress in the mirror's state topic. Raises MirrorFailed for a topic that no mirror wrote,
    ApiError, DeadlinePassed."""
    place = TopicPartition(name, 0)
    begin = (await offsets_at(target, [place], EARLIEST))[place]
    end = (await offsets_at(target, [place], LATEST, isolation=READ_COMMITTED))[place]
    consumer = Consumer(target, isolation=READ_COMMITTED, reset=EARLIEST)
    consumer.assign({place: begin})
    found: dict[TopicPartition, Progress] = {}
    try:
        while consumer.positions[place] < end:
            for each in await consumer.poll_or_tell(POLL_SECONDS):
                partition, progress = read_progress(each.record.key or b"", each.record.value or b"")
                found[partition] = progress
    except ValueError as problem:
        raise MirrorFailed(f"topic {name}: {problem}") from problem
    finally:
        consumer.assign({})
    return found
