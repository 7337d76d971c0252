"""The choice of a leader from what replicas answer, when no eligible replica is left. Pure.

With `unclean.leader.election.enable=true` and no strategy the controller does not ask: `partition_change_builder`
chooses a live replica.

A partition is *open* when it has no leader and one of these holds:

- Default policy (`kraft.unclean.recovery.strategy=none`, `unclean.leader.election.enable=false`, ELR on): ISR and ELR
  are empty, because every member restarted uncleanly, and lastKnownElr names the former members. Being the last leader
  then proves nothing: its disk may have lost records that other replicas still have.
- The strategy is balanced or aggressive (after KIP-966), and no member is held. A broker whose death was proven before
  its session ended is held until that time.

The *members* of a partition are the replicas in ISR, ELR and lastKnownElr. Before any loss, each of them had every
acknowledged record. A recovery runs in rounds:

1. `questions`: each live replica is asked where its log ends and in which leader epoch. Then each is asked where the
   last epochs of the other logs end in its own log, which tells whether it contains them.
2. `decide`: an answer counts while its broker is the incarnation that was asked and the partition is unchanged. The
   best member is the one with the greatest (last epoch, log end). Another replica leads instead if its log contains
   that member's log. Of several such replicas, the one with the greatest (last epoch, log end) leads, and among equals
   the first of the assignment. See `choose`.

When a recovery decides:

- Default policy: once every registered member has answered, or `kraft.unclean.recovery.timeout.ms` after the partition
  opened if at least one member has answered. Replicas that are not members get `OTHERS_SECONDS` more, or the rest of
  their sessions. Live ones get a whole session to answer.
- balanced: once every member has answered, is dead or is unregistered, or after the same timeout.
- aggressive: with the answers of one round.

A leaderless partition that is not open waits for a member of its ISR or ELR. Its live replicas are asked as well, so
that an operator can see which leader an unclean election would choose, and which records it would lose. Nothing is
decided for it.

A replica that does not answer is asked again after `retry_seconds`, or as soon as its broker or the partition changes.

The new leader is alone in the ISR. The partition is RECOVERING and the election is reported, unless every assigned
replica has answered and the new leader's log contains all the others: then nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kraft.common.recovery_strategy import RecoveryStrategy
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.partition_change_builder import change_of, is_held
from kraft.controller.unclean.election_facts import Recovered, Waiting, fields_of, lost_with, report_of
from kraft.controller.unclean.log_comparison import Answer, LogEnd, choose, epochs_to_compare, has_all, last_known
from kraft.controller.unclean.loss_records import election_records
from kraft.metadata.image.partition_registration import LOST_DIRECTORY, NO_LEADER, PartitionRegistration
from kraft.metadata.image.topics_image import TopicIdPartition

DECISIONS_MAX: Final = 1_000
"""Limit of partitions decided in one write."""
TOLD_AFTER_SECONDS: Final = 5.0
"""Seconds that a partition waits before its wait is reported."""
OTHERS_SECONDS: Final = 2.0
"""Seconds for which the default policy waits for replicas that are neither members nor live, once it waits for no
member."""
RETRY_SECONDS: Final = 0.25
RETRY_SECONDS_MAX: Final = 8.0
RETRIES_BEFORE_BACKOFF: Final = 4
"""The number of retries without a growing pause. A replica whose broker has just returned answers within a second, so
the first retries follow each other quickly."""
DOUBLINGS_MAX: Final = 5


def retry_seconds(tries: int) -> float:
    """Return the back-off in seconds after `tries` unsuccessful attempts in a row (1 or more)."""
    doublings = min(max(0, tries - RETRIES_BEFORE_BACKOFF), DOUBLINGS_MAX)
    return float(min(RETRY_SECONDS_MAX, RETRY_SECONDS * 2**doublings))


class Question(NamedTuple):
    """A question to `broker_id`, in its incarnation `broker_epoch`, about its log of one partition: the end of the log,
    and the end of each of `epochs` in it. It is valid while the partition is at `partition_epoch`."""

    key: TopicIdPartition
    topic: str
    broker_id: int
    broker_epoch: int
    leader_epoch: int
    partition_epoch: int
    epochs: tuple[int, ...] = ()


class Questions(NamedTuple):
    """The questions to ask. `asks` go to live replicas. `deaths` are the fenced brokers, with their epochs, to probe
    for death."""

    asks: tuple[Question, ...]
    deaths: tuple[tuple[int, int], ...]


class _Told(NamedTuple):
    broker_epoch: int
    partition_epoch: int
    answer: Answer


class _Silent(NamedTuple):
    """A replica that did not answer `tries` times in a row. It is not asked before `until`, unless its broker or the
    partition changes."""

    broker_epoch: int
    partition_epoch: int
    tries: int
    until: float


class _Leaderless:
    """The state of one leaderless partition: whether it is open, since when, since when no member is awaited, and the
    answers so far."""

    __slots__ = ("awaited_told", "is_open", "leader_epoch", "members_done", "silent", "since", "told")

    def __init__(self, leader_epoch: int, is_open: bool, since: float) -> None:
        self.leader_epoch = leader_epoch
        self.is_open = is_open
        self.since = since
        self.members_done: float | None = None
        self.awaited_told: tuple[int, ...] = ()
        self.told: dict[int, _Told] = {}
        self.silent: dict[int, _Silent] = {}

    def not_before(self, replica: int, broker_epoch: int, partition_epoch: int) -> float:
        """Return the time from which the replica may be asked again; 0 if immediately."""
        silent = self.silent.get(replica)
        is_same = silent is not None and silent[:2] == (broker_epoch, partition_epoch)
        return silent.until if silent is not None and is_same else 0.0


Since = Callable[[TopicIdPartition, int, bool], float | None]
"""(partition, leader epoch, whether it is open) -> the time since which this is so; None if not known."""


class UncleanRecoveries:
    """The state of all leaderless partitions. Owned by the active controller. A new active controller asks again, and
    waits for the remaining time."""

    def __init__(self, wait_seconds: float, since: Since = lambda key, leader_epoch, is_open: None) -> None:
        """`wait_seconds` is `kraft.unclean.recovery.timeout.ms`. `since` returns when a partition opened in a leader
        epoch, if that was before this controller became active."""
        self._wait_seconds = wait_seconds
        self._since = since
        self._leaderless: dict[TopicIdPartition, _Leaderless] = {}
        self._dead: dict[int, int] = {}
        self._due = math.inf

    def __len__(self) -> int:
        return len(self._leaderless)

    def forget_led(self, view: ControllerView) -> None:
        """Remove the partitions that have a leader again, with their answers."""
        leaderless = view.image.topics.leaderless
        self._leaderless = {key: recovery for key, recovery in self._leaderless.items() if key in leaderless}

    def has_open(self, keys: Iterable[TopicIdPartition]) -> bool:
        """Whether any of these partitions is open, so that a decision may be due."""
        known = self._leaderless
        return any(key in known and known[key].is_open for key in keys)

    def questions(self, view: ControllerView, now: float, keys: Sequence[TopicIdPartition] | None = None) -> Questions:
        """Return the next questions about the partitions `keys`, by default about all leaderless ones."""
        if keys is None:
            self.forget_led(view)
            keys = tuple(view.image.topics.leaderless)
        asks: list[Question] = []
        deaths: dict[int, int] = {}
        waiting = {each[0]: each for each in leaderless_partitions(view, keys)}
        for key in keys:
            if key not in waiting:
                self._leaderless.pop(key, None)
                continue
            _, topic, partition, opened = waiting[key]
            recovery = self._known(key, partition, opened, now)
            answers = _answers(view, partition, recovery)
            for replica in partition.replicas:
                broker = view.broker(replica)
                if broker is None:
                    continue
                if _is_live(view, partition, replica):
                    epochs = epochs_to_compare(replica, answers)
                    if replica not in answers or epochs:
                        until = recovery.not_before(replica, broker.epoch, partition.partition_epoch)
                        if now < until:
                            self._due = min(self._due, until)
                            continue
                        asks.append(
                            Question(
                                key,
                                topic,
                                replica,
                                broker.epoch,
                                partition.leader_epoch,
                                partition.partition_epoch,
                                epochs,
                            )
                        )
                elif (
                    opened
                    and broker.fenced
                    and replica in last_known(partition)
                    and view.recovery_strategy(key[0]) == RecoveryStrategy.BALANCED
                ):
                    deaths[replica] = broker.epoch
        return Questions(tuple(asks), tuple(sorted(deaths.items())))

    def _known(self, key: TopicIdPartition, partition: PartitionRegistration, opened: bool, now: float) -> _Leaderless:
        """Return the state of the partition. Its wait restarts when it opens, and in each leader epoch."""
        recovery = self._leaderless.get(key)
        if recovery is None or (recovery.leader_epoch, recovery.is_open) != (partition.leader_epoch, opened):
            noted = self._since(key, partition.leader_epoch, opened)
            recovery = _Leaderless(partition.leader_epoch, opened, now if noted is None else min(noted, now))
            self._leaderless[key] = recovery
        return recovery

    def answered(self, question: Question, end: LogEnd, epoch_ends: Mapping[int, LogEnd] | None = None) -> None:
        """Record a replica's answer: its log end, and the ends of the requested epochs."""
        recovery = self._leaderless.get(question.key)
        if recovery is not None:
            recovery.silent.pop(question.broker_id, None)
            told = recovery.told.get(question.broker_id)
            is_same = told is not None and told.answer.end == end and told.broker_epoch == question.broker_epoch
            known = told.answer.epoch_ends if told is not None and is_same else {}
            recovery.told[question.broker_id] = _Told(
                question.broker_epoch, question.partition_epoch, Answer(end, {**known, **(epoch_ends or {})})
            )

    def unanswered(self, question: Question, now: float) -> None:
        """Record, at time `now`, that a replica did not answer. A replica that cannot be compared counts as silent, and
        its earlier answer is dropped."""
        recovery = self._leaderless.get(question.key)
        if recovery is not None:
            replica, epochs = question.broker_id, (question.broker_epoch, question.partition_epoch)
            recovery.told.pop(replica, None)
            before = recovery.silent.get(replica)
            tries = 1 if before is None or before[:2] != epochs else before.tries + 1
            silent = recovery.silent[replica] = _Silent(*epochs, tries, now + retry_seconds(tries))
            self._due = min(self._due, silent.until)

    def found_dead(self, brokers: Sequence[tuple[int, int]]) -> None:
        """Record that these brokers, each with its epoch, are dead.
        Earlier findings about other brokers are dropped."""
        self._dead = dict(brokers)

    def decide(
        self, view: ControllerView, now: float, wall_ms: int = 0, keys: Sequence[TopicIdPartition] | None = None
    ) -> ControllerResult[tuple[Recovered, ...]]:
        """Return records and reports for the partitions among `keys` (default: all) that can be decided in this `view`,
        at most 1,000. The reports contain the time `wall_ms`."""
        records: list[Any] = []
        reports: list[Recovered] = []
        for key, topic, partition in open_partitions(view, keys):
            recovery = self._leaderless.get(key)
            if recovery is None or not recovery.is_open or len(reports) >= DECISIONS_MAX:
                continue
            answers = _answers(view, partition, recovery)
            is_unclear = not answers or any(epochs_to_compare(replica, answers) for replica in answers)
            if is_unclear or self._awaited(view, key, partition, recovery, answers, now):
                self._due = min(self._due, self._next_deadline(view, recovery, now))
                continue
            leader = choose(partition, answers, _able(view, partition, answers))
            if leader == NO_LEADER:
                continue
            assert leader in answers, f"{leader} of {key} did not answer"
            builder = change_of(view, key[0], key[1], partition)
            builder.recovered_leader = leader
            builder.recovered_leader_has_all = has_all(partition, answers, leader)
            record = builder.build()
            if record is not None and record.leader == leader:
                report = report_of(topic, key[1], view.recovery_strategy(key[0]), partition, leader, answers)
                reports.append(report)
                records.append(record)
                if not report.is_clean:
                    records += election_records(
                        view,
                        topic,
                        key[1],
                        partition,
                        partition.merge(record),
                        {"time_ms": wall_ms, **fields_of(report)},
                    )
        return ControllerResult(records, tuple(reports))

    def take_due(self) -> float:
        """Return the earliest time at which a partition left open by the decisions since the last call may be decided
        by a timeout alone."""
        due, self._due = self._due, math.inf
        return due

    def _next_deadline(self, view: ControllerView, recovery: _Leaderless, now: float) -> float:
        deadlines = [recovery.since + self._wait_seconds, recovery.since + TOLD_AFTER_SECONDS]
        if recovery.members_done is not None:
            session = view.settings.broker_session_timeout_ms / 1000
            deadlines += (recovery.members_done + OTHERS_SECONDS, recovery.members_done + session)
        return min((deadline for deadline in deadlines if deadline > now), default=math.inf)

    def candidate(self, view: ControllerView, key: TopicIdPartition) -> int | None:
        """Return the replica that would lead if the wait for other replicas ended now; None if nothing is known."""
        recovery = self._leaderless.get(key)
        topic = view.image.topics.by_id.get(key[0])
        partition = None if topic is None else topic.partitions.get(key[1])
        if recovery is None or partition is None or partition.has_leader:
            return None
        able = _able(view, partition, _answers(view, partition, recovery))
        return choose(partition, able) if able else None

    def waiting(
        self, view: ControllerView, now: float, keys: Sequence[TopicIdPartition] | None = None
    ) -> Iterator[Waiting]:
        """Return the leaderless partitions among `keys` (default: all), for operators who ask what the cluster waits
        for."""
        for key, topic, partition, opened in leaderless_partitions(view, keys):
            recovery = self._leaderless.get(key)
            if recovery is None or recovery.is_open != opened:
                continue
            answers = _answers(view, partition, recovery)
            strategy = view.recovery_strategy(key[0])
            members = last_known(partition)
            is_bounded = opened and (
                strategy != RecoveryStrategy.NONE or any(replica in answers for replica in members)
            )
            able = _able(view, partition, answers)
            candidate = choose(partition, able) if able else NO_LEADER
            yield Waiting(
                key=key,
                topic=topic,
                strategy=strategy,
                since=recovery.since,
                until=recovery.since + self._wait_seconds if is_bounded else None,
                members=members,
                awaited=self._awaited(view, key, partition, recovery, answers, now)
                if opened
                else _awaited_in_sync(view, partition),
                ends=tuple((replica, answer.end) for replica, answer in answers.items()),
                candidate=candidate,
                lost=lost_with(answers, candidate) if able else (),
            )

    def waits_to_tell(self, view: ControllerView, now: float) -> Iterator[Waiting]:
        """Return the open partitions whose wait is not reported yet. Each counts as reported once it is yielded."""
        for waiting in self.waiting(view, now, [key for key, known in self._leaderless.items() if known.is_open]):
            recovery = self._leaderless[waiting.key]
            if now - recovery.since >= TOLD_AFTER_SECONDS and waiting.awaited not in ((), recovery.awaited_told):
                recovery.awaited_told = waiting.awaited
                yield waiting

    def _awaited(
        self,
        view: ControllerView,
        key: TopicIdPartition,
        partition: PartitionRegistration,
        recovery: _Leaderless,
        answers: Mapping[int, Answer],
        now: float,
    ) -> tuple[int, ...]:
        """Return the replicas whose answers the decision waits for."""
        strategy = view.recovery_strategy(key[0])
        if strategy == RecoveryStrategy.AGGRESSIVE:
            return ()
        members = last_known(partition)
        missing = tuple(replica for replica in members if replica not in answers and view.broker(replica) is not None)
        is_over = now - recovery.since >= self._wait_seconds
        if strategy == RecoveryStrategy.BALANCED:
            return () if is_over else tuple(replica for replica in missing if not self._is_dead(view, replica))
        if missing and not (is_over and any(replica in answers for replica in members)):
            recovery.members_done = None
            return missing
        if not any(replica in answers for replica in members):
            return members  # No member is registered: only an operator can decide that their logs are lost.
        if recovery.members_done is None:
            recovery.members_done = now
        waited = now - recovery.members_done
        others = (replica for replica in partition.replicas if replica not in answers and replica not in members)
        return tuple(
            replica
            for replica in others
            if view.broker(replica) is not None
            and (replica in view.held_brokers or waited < _patience(view, partition, replica))
        )

    def _is_dead(self, view: ControllerView, replica: int) -> bool:
        broker = view.broker(replica)
        return broker is None or (broker.fenced and self._dead.get(replica) == broker.epoch)


def is_open(view: ControllerView, topic_id: bytes, partition: PartitionRegistration) -> bool:
    """Whether a recovery must find a leader for a leaderless partition. See the module's docstring."""
    if view.recovery_strategy(topic_id) != RecoveryStrategy.NONE:
        return True
    if partition.isr or partition.elr or not partition.last_known_elr:
        return False  # The wait for a member of ISR or ELR is unbounded, as in Apache Kafka.
    return view.elr_enabled and not view.unclean_election_enabled(topic_id)


def open_partitions(
    view: ControllerView, keys: Iterable[TopicIdPartition] | None = None
) -> Iterator[tuple[TopicIdPartition, str, PartitionRegistration]]:
    """Return the open partitions among `keys` (default: all), with their topics' names."""
    for key, topic, partition, opened in leaderless_partitions(view, keys):
        if opened:
            yield key, topic, partition


def leaderless_partitions(
    view: ControllerView, keys: Iterable[TopicIdPartition] | None = None
) -> Iterator[tuple[TopicIdPartition, str, PartitionRegistration, bool]]:
    """Return the leaderless partitions among `keys` (default: all), with their topics' names and whether they are open.
    Under a recovery strategy, partitions with a held member are left out."""
    topics = view.image.topics
    for key in topics.leaderless if keys is None else keys:
        if key not in topics.leaderless:
            continue
        topic = topics.by_id[key[0]]
        partition = topic.partitions[key[1]]
        if view.recovery_strategy(key[0]) == RecoveryStrategy.NONE or not is_held(partition, view.held_brokers):
            yield key, topic.name, partition, is_open(view, key[0], partition)


def _awaited_in_sync(view: ControllerView, partition: PartitionRegistration) -> tuple[int, ...]:
    """Return the replicas whose return ends the wait of a partition that is not open: members of ISR and ELR, or any
    replica if both are empty."""
    in_sync = (*partition.isr, *partition.elr)
    return tuple(
        replica
        for replica in partition.replicas
        if (replica in in_sync or not in_sync)
        and not (view.is_active(replica) and view.replica_is_usable(partition, replica))
    )


def _patience(view: ControllerView, partition: PartitionRegistration, replica: int) -> float:
    """Return the seconds for which the default policy waits for a replica that is not a member. A live replica on a
    busy machine may have everything that a member lost. A broker that died unnoticed is fenced within its session."""
    session = view.settings.broker_session_timeout_ms / 1000
    return max(OTHERS_SECONDS, session) if _is_live(view, partition, replica) else OTHERS_SECONDS


def _is_live(view: ControllerView, partition: PartitionRegistration, replica: int) -> bool:
    """Whether the replica can be asked. A replica reported as LOST may have a damaged log, which still knows its former
    end."""
    return view.is_active(replica) and (
        view.replica_is_usable(partition, replica) or partition.directory(replica) == LOST_DIRECTORY
    )


def _able(view: ControllerView, partition: PartitionRegistration, answers: Mapping[int, Answer]) -> dict[int, Answer]:
    return {replica: answer for replica, answer in answers.items() if view.replica_is_usable(partition, replica)}


def _answers(view: ControllerView, partition: PartitionRegistration, recovery: _Leaderless) -> dict[int, Answer]:
    """Return the answers of live replicas whose broker and partition have not changed since, in assignment order."""
    answers: dict[int, Answer] = {}
    for replica in partition.replicas:
        told = recovery.told.get(replica)
        broker = view.broker(replica)
        if (
            told is not None
            and broker is not None
            and (told.broker_epoch, told.partition_epoch) == (broker.epoch, partition.partition_epoch)
            and _is_live(view, partition, replica)
        ):
            answers[replica] = told.answer
    return answers
