"""Which replica leads when nobody who may lead is left: the policy of `kraft.unclean.recovery.strategy`, after
KIP-966. Pure.

A partition is open for recovery while it has no leader, its topic has a strategy other than none, and nobody of whom
its records may be had is held (a broker whose death was proven before its session ended may be back within it).
Whoever was in ISR, ELR or lastKnownElr is a last known replica. Then, in rounds:

1. `questions`: every live replica is asked how long its log is and in which leader epoch it ends, unless it has told
   and nothing has changed since; and of every last known replica whose broker is fenced it has to be found out
   whether its process is there at all.
2. `decide`: answers count if the broker still is the incarnation that was asked, and the partition has not changed.
   Of the live replicas that answered, the one with the greatest (last epoch, log end) leads; among equals the first
   in the assignment. But another replica leads before the last known ones only if it ends in the epoch of the best
   of them (`best_of`). *aggressive* takes the best of those there are. *balanced* takes it once each last known
   replica has answered, is dead or is unregistered, or once the partition has been open for the time allowed.

The new leader is alone in the ISR, and the partition RECOVERING. What other replicas have beyond its end is lost,
and the report tells their ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kraft.common.recovery_strategy import RecoveryStrategy
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.controller.partition_change_builder import change_of, is_held
from kraft.controller.unclean.loss_records import election_records
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.image.topics_image import TopicIdPartition

DECISIONS_MAX: Final = 1_000
"""Partitions decided in one write."""


class LogEnd(NamedTuple):
    """How much of a partition a replica has. Their order is the order of preference."""

    last_epoch: int
    end_offset: int


class Question(NamedTuple):
    """Ask `broker_id`, in its incarnation `broker_epoch`, for its end of a partition that is as `partition_epoch`
    says."""

    key: TopicIdPartition
    topic: str
    broker_id: int
    broker_epoch: int
    leader_epoch: int
    partition_epoch: int


class Questions(NamedTuple):
    """`asks` go to live replicas. `deaths` are fenced brokers, with their epochs, of which it matters whether they
    are dead."""

    asks: tuple[Question, ...]
    deaths: tuple[tuple[int, int], ...]


class Recovered(NamedTuple):
    """A leader that was chosen, for the report: `ends` is what each replica told, `silent` are the replicas that
    told nothing."""

    topic: str
    partition: int
    strategy: str
    leader: int
    leader_epoch: int
    former_epoch: int
    former_leaders: tuple[int, ...]
    end: LogEnd
    ends: tuple[tuple[int, LogEnd], ...]
    silent: tuple[int, ...]


class _Answer(NamedTuple):
    broker_epoch: int
    partition_epoch: int
    end: LogEnd


class _Open:
    """One partition that is open: since when, and what was told."""

    __slots__ = ("answers", "leader_epoch", "since")

    def __init__(self, leader_epoch: int, since: float) -> None:
        self.leader_epoch = leader_epoch
        self.since = since
        self.answers: dict[int, _Answer] = {}


class UncleanRecoveries:
    """What is known of the partitions that are open. Owned by the active controller: its successor asks again, and
    waits for what is left of the time."""

    def __init__(
        self,
        wait_seconds: float,
        since: Callable[[TopicIdPartition, int], float | None] = lambda key, leader_epoch: None,
    ) -> None:
        """`since` tells when a partition began to wait in a leader epoch, if it was before this controller became
        active."""
        self._wait_seconds = wait_seconds
        self._since = since
        self._open: dict[TopicIdPartition, _Open] = {}
        self._dead: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def questions(self, view: ControllerView, now: float) -> Questions:
        """What to find out next. Partitions that are no longer open are forgotten, with all that was told of them."""
        known, self._open = self._open, {}
        asks: list[Question] = []
        deaths: dict[int, int] = {}
        for key, topic, partition in open_partitions(view):
            recovery = known.get(key)
            if recovery is None or recovery.leader_epoch != partition.leader_epoch:
                noted = self._since(key, partition.leader_epoch)
                recovery = _Open(partition.leader_epoch, now if noted is None else min(noted, now))
            self._open[key] = recovery
            for replica in partition.replicas:
                broker = view.broker(replica)
                if broker is None:
                    continue
                if _is_live(view, partition, replica):
                    if _valid(recovery.answers.get(replica), broker.epoch, partition) is None:
                        asks.append(
                            Question(
                                key, topic, replica, broker.epoch, partition.leader_epoch, partition.partition_epoch
                            )
                        )
                elif broker.fenced and replica in last_known(partition):
                    deaths[replica] = broker.epoch
        return Questions(tuple(asks), tuple(sorted(deaths.items())))

    def answered(self, question: Question, end: LogEnd) -> None:
        """A replica told its end."""
        recovery = self._open.get(question.key)
        if recovery is not None:
            recovery.answers[question.broker_id] = _Answer(question.broker_epoch, question.partition_epoch, end)

    def found_dead(self, brokers: Sequence[tuple[int, int]]) -> None:
        """These brokers, each in the incarnation of its epoch, are dead; of no other is that known any more."""
        self._dead = dict(brokers)

    def decide(self, view: ControllerView, now: float, wall_ms: int = 0) -> ControllerResult[tuple[Recovered, ...]]:
        """Records and reports for the partitions that can be decided in this `view`, at most 1,000. `wall_ms` goes
        into the reports."""
        records: list[Any] = []
        reports: list[Recovered] = []
        for key, topic, partition in open_partitions(view):
            recovery = self._open.get(key)
            if recovery is None or len(reports) >= DECISIONS_MAX:
                continue
            strategy = view.recovery_strategy(key[0])
            ends = self._ends(view, partition, recovery)
            if not ends or (
                strategy == RecoveryStrategy.BALANCED
                and not self._may_stop_waiting(view, partition, recovery, ends, now)
            ):
                continue
            leader = best_of(partition, ends)
            builder = change_of(view, key[0], key[1], partition)
            builder.recovered_leader = leader
            record = builder.build()
            if record is not None and record.leader == leader:
                report = _report(topic, key[1], strategy, partition, leader, ends)
                reports.append(report)
                records += [
                    record,
                    *election_records(
                        view,
                        topic,
                        key[1],
                        partition,
                        partition.merge(record),
                        {"time_ms": wall_ms, **fields_of(report)},
                    ),
                ]
        return ControllerResult(records, tuple(reports))

    def _ends(self, view: ControllerView, partition: PartitionRegistration, recovery: _Open) -> dict[int, LogEnd]:
        """What live replicas told, as far as it still counts, in order of the assignment."""
        ends: dict[int, LogEnd] = {}
        for replica in partition.replicas:
            broker = view.broker(replica)
            if broker is not None and _is_live(view, partition, replica):
                answer = _valid(recovery.answers.get(replica), broker.epoch, partition)
                if answer is not None:
                    ends[replica] = answer.end
        return ends

    def _may_stop_waiting(
        self,
        view: ControllerView,
        partition: PartitionRegistration,
        recovery: _Open,
        ends: dict[int, LogEnd],
        now: float,
    ) -> bool:
        if now - recovery.since >= self._wait_seconds:
            return True
        for replica in last_known(partition):
            broker = view.broker(replica)
            is_dead = broker is None or (broker.fenced and self._dead.get(replica) == broker.epoch)
            if replica not in ends and not is_dead:
                return False
        return True


def open_partitions(view: ControllerView) -> Iterator[tuple[TopicIdPartition, str, PartitionRegistration]]:
    """The partitions that are open for recovery, with their topics' names, in order of topic id and index."""
    topics = view.image.topics
    for key in topics.leaderless:
        if view.recovery_strategy(key[0]) == RecoveryStrategy.NONE:
            continue
        topic = topics.by_id[key[0]]
        partition = topic.partitions[key[1]]
        if not is_held(partition, view.held_brokers):
            yield key, topic.name, partition


def last_known(partition: PartitionRegistration) -> tuple[int, ...]:
    """Replicas that may have what was acknowledged: whoever is in ISR or ELR, or was when the last of them went."""
    members = (*partition.isr, *partition.elr, *partition.last_known_elr)
    return tuple(replica for replica in partition.replicas if replica in members)


def best_of(partition: PartitionRegistration, ends: dict[int, LogEnd]) -> int:
    """The replica to lead, of those that told their ends.

    A last known replica has everything that was acknowledged. A later epoch at the end of another does not prove
    that it has more: it may have led alone, acknowledged nothing, and missed what a later leader acknowledged of
    earlier epochs (the Raft paper's figure 8). In the same epoch the longer log has all of the shorter one.
    """
    known = [ends[replica] for replica in last_known(partition) if replica in ends]
    epochs = {max(known).last_epoch} if known else {end.last_epoch for end in ends.values()}
    able = [replica for replica, end in ends.items() if replica in last_known(partition) or end.last_epoch in epochs]
    return max(able, key=lambda replica: (ends[replica], -partition.replicas.index(replica)))


def _is_live(view: ControllerView, partition: PartitionRegistration, replica: int) -> bool:
    return view.is_active(replica) and view.replica_is_usable(partition, replica)


def _valid(answer: _Answer | None, broker_epoch: int, partition: PartitionRegistration) -> _Answer | None:
    """The answer if neither the broker nor the partition has changed since it was asked for."""
    if answer is None or (answer.broker_epoch, answer.partition_epoch) != (broker_epoch, partition.partition_epoch):
        return None
    return answer


def _report(
    topic: str, index: int, strategy: str, partition: PartitionRegistration, leader: int, ends: dict[int, LogEnd]
) -> Recovered:
    return Recovered(
        topic=topic,
        partition=index,
        strategy=strategy,
        leader=leader,
        leader_epoch=partition.leader_epoch + 1,
        former_epoch=partition.leader_epoch,
        former_leaders=last_known(partition),
        end=ends[leader],
        ends=tuple(ends.items()),
        silent=tuple(replica for replica in partition.replicas if replica not in ends),
    )


def fields_of(recovered: Recovered) -> dict[str, Any]:
    """A recovery as an event: JSON values only. `ends` are what replicas told, `silent` those that told nothing."""
    return {
        "topic": recovered.topic,
        "partition": recovered.partition,
        "strategy": recovered.strategy,
        "leader": recovered.leader,
        "leader_epoch": recovered.leader_epoch,
        "former_epoch": recovered.former_epoch,
        "last_known": list(recovered.former_leaders),
        **_end(recovered.end),
        "ends": [{"replica": replica, **_end(end)} for replica, end in recovered.ends],
        "silent": list(recovered.silent),
    }


def _end(end: LogEnd) -> dict[str, int]:
    return {"last_epoch": end.last_epoch, "end_offset": end.end_offset}
