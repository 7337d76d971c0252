"""Facts about elections that compare logs, as shown to operators: a chosen leader, or a partition that waits for one.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kraft.controller.unclean.log_comparison import Answer, LogEnd, has_all, last_known
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.image.topics_image import TopicIdPartition


class Recovered(NamedTuple):
    """A leader chosen by a recovery, for the report.

    `ends` are the log ends that replicas reported. `silent` are the replicas that did not respond. `is_clean` means
    that every assigned replica responded and the leader's log contains all the others.
    """

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
    is_clean: bool = False


class Lost(NamedTuple):
    """The offsets of a replica that the new leader's log does not have. `end_offset` is exclusive."""

    replica: int
    start_offset: int
    end_offset: int


class Waiting(NamedTuple):
    """A leaderless partition: what it waits for, and what is known.

    Times are seconds of the controller's clock. `until` is None if the wait is unbounded. `candidate` would lead if an
    operator ended the wait now; it is -1 if no log is known. `lost` are the offsets that the other known logs have and
    the candidate's log does not. The logs of `awaited` replicas are not known.
    """

    key: TopicIdPartition
    topic: str
    strategy: str
    since: float
    until: float | None
    members: tuple[int, ...]
    awaited: tuple[int, ...]
    ends: tuple[tuple[int, LogEnd], ...]
    candidate: int
    lost: tuple[Lost, ...] = ()


def report_of(
    topic: str,
    index: int,
    strategy: str,
    partition: PartitionRegistration,
    leader: int,
    answers: Mapping[int, Answer],
) -> Recovered:
    return Recovered(
        topic=topic,
        partition=index,
        strategy=strategy,
        leader=leader,
        leader_epoch=partition.leader_epoch + 1,
        former_epoch=partition.leader_epoch,
        former_leaders=last_known(partition),
        end=answers[leader].end,
        ends=tuple((replica, answer.end) for replica, answer in answers.items()),
        silent=tuple(replica for replica in partition.replicas if replica not in answers),
        is_clean=has_all(partition, answers, leader),
    )


def lost_with(answers: Mapping[int, Answer], leader: int) -> tuple[Lost, ...]:
    """Return the offsets that the known logs have and the log of `leader` does not."""
    found = (
        Lost(replica, answers[leader].common_end(answer), answer.end.end_offset)
        for replica, answer in answers.items()
        if replica != leader
    )
    return tuple(lost for lost in found if lost.start_offset < lost.end_offset)


def fields_of(recovered: Recovered) -> dict[str, Any]:
    """Return a recovery as a log event with JSON values. `ends` are the log ends that replicas reported, `silent` the
    replicas that did not respond."""
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


def waiting_fields(waiting: Waiting, wall_offset_ms: int) -> dict[str, Any]:
    """Return a wait as a log event with JSON values.

    `wall_offset_ms` converts seconds of the controller's clock into wall time. `command` is the command by which an
    operator ends the wait; then `candidate` is elected. `lost` are the offsets beyond the candidate's log that the
    other known logs have (end exclusive). Records that only the awaited replicas have would be lost as well.
    """

    def wall(seconds: float) -> int:
        return wall_offset_ms + int(1000 * seconds)

    return {
        "topic": waiting.topic,
        "partition": waiting.key[1],
        "strategy": waiting.strategy,
        "members": list(waiting.members),
        "awaited": list(waiting.awaited),
        "since_ms": wall(waiting.since),
        "until_ms": None if waiting.until is None else wall(waiting.until),
        "ends": [{"replica": replica, **_end(end)} for replica, end in waiting.ends],
        "candidate": waiting.candidate,
        "lost": [lost._asdict() for lost in waiting.lost],
        "command": f"kraft elections unclean {waiting.topic}-{waiting.key[1]}",
    }


def _end(end: LogEnd) -> dict[str, int]:
    return {"last_epoch": end.last_epoch, "end_offset": end.end_offset}
