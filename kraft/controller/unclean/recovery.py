"""The choice of a leader when no eligible replica is left. Pure.

A partition is *open* when it has no leader and one of these holds:

- Default policy (`kraft.unclean.recovery.strategy=none`, `unclean.leader.election.enable=false`, ELR on): ISR and ELR
  are empty, because every member restarted uncleanly, and lastKnownElr names who they were. Being the last leader
  proves nothing then: its disk may have lost what other replicas still have.
- The strategy is balanced or aggressive (after KIP-966), and no member is held: a broker whose death was proven before
  its session ended has until then to return.

The *members* of a partition are the replicas in ISR, ELR and lastKnownElr. Before any loss, each of them had every
acknowledged record. A recovery goes in rounds:

1. `questions`: each live replica is asked where its log ends and in which leader epoch. Then each is asked where the
   last epochs of the other logs end in its own log, which tells whether it contains them.
2. `decide`: an answer counts while its broker is the incarnation that was asked and the partition is unchanged.
   The best member is the one with the greatest (last epoch, log end). Another replica leads instead if its log
   contains that member's log; of several, the one with the greatest (last epoch, log end), and among equals the first
   of the assignment. See `choose`.

When a recovery decides:

- Default policy: once every registered member has answered, or `kraft.unclean.recovery.timeout.ms` after the
  partition opened if at least one member has answered. Replicas that are no members get `OTHERS_SECONDS` more, or
  what is left of their sessions; those that are live get a whole session to answer.
- balanced: once every member has answered, is dead or is unregistered, or after the same timeout.
- aggressive: with the answers of one round.

A partition that has no leader and is not open waits for a member of its ISR or ELR. Its live replicas are asked as
well, so that an operator can be told what an unclean election would choose, and lose. Nothing is decided there.

A replica that does not answer is asked again after `retry_seconds`, or as soon as its broker or the partition
changes.

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
"""Partitions decided in one write."""
TOLD_AFTER_SECONDS: Final = 5.0
"""How long a partition waits before that is told."""
OTHERS_SECONDS: Final = 2.0
"""How long the default policy waits for replicas that are no members and are not live, once it waits for no member any
more."""
RETRY_SECONDS: Final = 0.25
RETRY_SECONDS_MAX: Final = 8.0
RETRIES_BEFORE_BACKOFF: Final = 4
"""A replica whose broker has just returned answers within a second, so the first retries are close together."""
DOUBLINGS_MAX: Final = 5


def retry_seconds(tries: int) -> float:
    """How long to wait after `tries` attempts in a row (1 or more) that found nothing out."""
    doublings = min(max(0, tries - RETRIES_BEFORE_BACKOFF), DOUBLINGS_MAX)
    return float(min(RETRY_SECONDS_MAX, RETRY_SECONDS * 2**doublings))


class Question(NamedTuple):
    """A question to `broker_id`, in its incarnation `broker_epoch`: where does its log end, and where do `epochs` end
    in it? It holds for the partition at `partition_epoch`."""

    key: TopicIdPartition
    topic: str
    broker_id: int
    broker_epoch: int
    leader_epoch: int
    partition_epoch: int
    epochs: tuple[int, ...] = ()


class Questions(NamedTuple):
    """The questions to ask. `asks` go to live replicas. `deaths` are fenced brokers, with their epochs, for which it
    matters whether they are dead."""

    asks: tuple[Question, ...]
    deaths: tuple[tuple[int, int], ...]


class _Told(NamedTuple):
    broker_epoch: int
    partition_epoch: int
    answer: Answer


class _Silent(NamedTuple):
    """A replica that did not answer `tries` times in a row. It is not asked before `until`, as long as its broker and
    the partition stay as they were."""

    broker_epoch: int
    partition_epoch: int
    tries: int
    until: float


class _Leaderless:
    """One partition without a leader: whether it is open, since when it is or is not, since when no member is waited
    for, and what was told."""

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
        """When the replica may be asked again; 0 if it may at once."""
        silent = self.silent.get(replica)
        is_same = silent is not None and silent[:2] == (broker_epoch, partition_epoch)
        return silent.until if silent is not None and is_same else 0.0


Since = Callable[[TopicIdPartition, int, bool], float | None]
"""(partition, leader epoch, whether it is open) -> since when that is so; None: not known."""


class UncleanRecoveries:
    """What is known of the partitions that have no leader. Owned by the active controller: its successor asks again,
    and waits for what is left of the time."""

    def __init__(self, wait_seconds: float, since: Since = lambda key, leader_epoch, is_open: None) -> None:
        """`wait_seconds` is `kraft.unclean.recovery.timeout.ms`. `since` tells when a partition opened in a leader
        epoch, if it was before this controller became active."""
        self._wait_seconds = wait_seconds
        self._since = since
        self._leaderless: dict[TopicIdPartition, _Leaderless] = {}
        self._dead: dict[int, int] = {}
        self._due = math.inf

    def __len__(self) -> int:
        return len(self._leaderless)

    def forget_led(self, view: ControllerView) -> None:
        """Forget the partitions that have a leader again, with all that was told of them."""
        leaderless = view.image.topics.leaderless
        self._leaderless = {key: recovery for key, recovery in self._leaderless.items() if key in leaderless}

    def has_open(self, keys: Iterable[TopicIdPartition]) -> bool:
        """Whether something may have to be decided for one of these partitions."""
        known = self._leaderless
        return any(key in known and known[key].is_open for key in keys)

    def questions(self, view: ControllerView, now: float, keys: Sequence[TopicIdPartition] | None = None) -> Questions:
        """What to find out next of the partitions `keys`, by default of all that have no leader."""
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
        """What is known of the partition. Times count anew once it is open, and in each leader epoch."""
        recovery = self._leaderless.get(key)
        if recovery is None or (recovery.leader_epoch, recovery.is_open) != (partition.leader_epoch, opened):
            noted = self._since(key, partition.leader_epoch, opened)
            recovery = _Leaderless(partition.leader_epoch, opened, now if noted is None else min(noted, now))
            self._leaderless[key] = recovery
        return recovery

    def answered(self, question: Question, end: LogEnd, epoch_ends: Mapping[int, LogEnd] | None = None) -> None:
        """A replica told its end, and where the epochs that it was asked for end."""
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
        """Note that a replica did not answer, as is known since `now`. A replica that cannot be compared counts as
        silent, and its earlier answer is dropped."""
        recovery = self._leaderless.get(question.key)
        if recovery is not None:
            replica, epochs = question.broker_id, (question.broker_epoch, question.partition_epoch)
            recovery.told.pop(replica, None)
            before = recovery.silent.get(replica)
            tries = 1 if before is None or before[:2] != epochs else before.tries + 1
            silent = recovery.silent[replica] = _Silent(*epochs, tries, now + retry_seconds(tries))
            self._due = min(self._due, silent.until)

    def found_dead(self, brokers: Sequence[tuple[int, int]]) -> None:
        """Note that these brokers, each in the incarnation of its epoch, are dead. Earlier findings about other brokers
        are dropped."""
        self._dead = dict(brokers)

    def decide(
        self, view: ControllerView, now: float, wall_ms: int = 0, keys: Sequence[TopicIdPartition] | None = None
    ) -> ControllerResult[tuple[Recovered, ...]]:
        """Records and reports for those of the partitions `keys`, by default of all, that can be decided in this
        `view`, at most 1,000. `wall_ms` goes into the reports."""
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
        """When the passing of time alone may decide a partition that the decisions since the last call left open."""
        due, self._due = self._due, math.inf
        return due

    def _next_deadline(self, view: ControllerView, recovery: _Leaderless, now: float) -> float:
        deadlines = [recovery.since + self._wait_seconds, recovery.since + TOLD_AFTER_SECONDS]
        if recovery.members_done is not None:
            session = view.settings.broker_session_timeout_ms / 1000
            deadlines += (recovery.members_done + OTHERS_SECONDS, recovery.members_done + session)
        return min((deadline for deadline in deadlines if deadline > now), default=math.inf)

    def candidate(self, view: ControllerView, key: TopicIdPartition) -> int | None:
        """The replica that would lead if the wait for others ended now; None if nothing is known."""
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
        """The partitions of `keys`, by default all, that have no leader, for whoever asks what the cluster waits
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
        """The open partitions whose wait has not been reported yet. Each is reported once it is taken."""
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
        """The replicas whose answers the decision waits for."""
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
            return members  # None of them is registered: only an operator can decide that their logs are gone.
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
    """Whether a recovery has to find a leader for a partition that has none; see the module."""
    if view.recovery_strategy(topic_id) != RecoveryStrategy.NONE:
        return True
    if partition.isr or partition.elr or not partition.last_known_elr:
        return False  # A member of ISR or ELR is waited for without bound, as in Apache Kafka.
    return view.elr_enabled and not view.unclean_election_enabled(topic_id)


def open_partitions(
    view: ControllerView, keys: Iterable[TopicIdPartition] | None = None
) -> Iterator[tuple[TopicIdPartition, str, PartitionRegistration]]:
    """The partitions of `keys`, by default of all, that are open, with their topics' names."""
    for key, topic, partition, opened in leaderless_partitions(view, keys):
        if opened:
            yield key, topic, partition


def leaderless_partitions(
    view: ControllerView, keys: Iterable[TopicIdPartition] | None = None
) -> Iterator[tuple[TopicIdPartition, str, PartitionRegistration, bool]]:
    """The partitions of `keys`, by default of all, that have no leader, with their topics' names and whether they are
    open. Under a strategy, those are left out of which a member is held."""
    topics = view.image.topics
    for key in topics.leaderless if keys is None else keys:
        if key not in topics.leaderless:
            continue
        topic = topics.by_id[key[0]]
        partition = topic.partitions[key[1]]
        if view.recovery_strategy(key[0]) == RecoveryStrategy.NONE or not is_held(partition, view.held_brokers):
            yield key, topic.name, partition, is_open(view, key[0], partition)


def _awaited_in_sync(view: ControllerView, partition: PartitionRegistration) -> tuple[int, ...]:
    """The replicas whose return ends the wait of a partition that is not open: members of ISR and ELR, or any replica
    where both are empty."""
    in_sync = (*partition.isr, *partition.elr)
    return tuple(
        replica
        for replica in partition.replicas
        if (replica in in_sync or not in_sync)
        and not (view.is_active(replica) and view.replica_is_usable(partition, replica))
    )


def _patience(view: ControllerView, partition: PartitionRegistration, replica: int) -> float:
    """How long the default policy waits for a replica that is not a member. A live one on a busy machine may have
    everything that a member lost. One that died unnoticed is fenced within the session."""
    session = view.settings.broker_session_timeout_ms / 1000
    return max(OTHERS_SECONDS, session) if _is_live(view, partition, replica) else OTHERS_SECONDS


def _is_live(view: ControllerView, partition: PartitionRegistration, replica: int) -> bool:
    """Whether the replica can be asked. A replica that was reported lost may be a damaged log, which still knows where
    it ended."""
    return view.is_active(replica) and (
        view.replica_is_usable(partition, replica) or partition.directory(replica) == LOST_DIRECTORY
    )


def _able(view: ControllerView, partition: PartitionRegistration, answers: Mapping[int, Answer]) -> dict[int, Answer]:
    return {replica: answer for replica, answer in answers.items() if view.replica_is_usable(partition, replica)}


def _answers(view: ControllerView, partition: PartitionRegistration, recovery: _Leaderless) -> dict[int, Answer]:
    """The answers of live replicas whose broker and partition have not changed since, in order of the assignment."""
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
