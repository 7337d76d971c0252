"""Partitions that cannot be read for now: each waits for itself, so that none of them slows the others."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

from kraft.admin.errors import UNKNOWN_TOPIC
from kraft.client.backoff import Backoff
from kraft.client.connection import Disconnected, NotAdmitted
from kraft.client.errors import NoBroker
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import is_retriable


@dataclass(slots=True)
class _Pause:
    backoff: Backoff
    until: float
    problem: Exception


class PartitionBackoff:
    """Owned by a consumer. A partition that fails is asked for again at once, for its leader may have moved, and
    then after pauses that grow."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._pauses: dict[TopicPartition, _Pause] = {}

    def clear(self) -> None:
        self._pauses.clear()

    def end(self, partition: TopicPartition) -> None:
        """It has been read, or is not read any more."""
        self._pauses.pop(partition, None)

    def begin(self, partition: TopicPartition, problem: Exception, now: float) -> None:
        pause = self._pauses.get(partition)
        if pause is None:
            self._pauses[partition] = _Pause(Backoff(self._chance), now, problem)
        else:
            pause.until, pause.problem = now + pause.backoff.next(), problem

    def ready(self, partitions: Iterable[TopicPartition], now: float) -> list[TopicPartition]:
        """Those that may be asked for now."""
        return [
            partition
            for partition in partitions
            if partition not in self._pauses or self._pauses[partition].until <= now
        ]

    def next_ready(self, now: float) -> float:
        """When the next one may be that may not now; infinity when there is none."""
        return min((pause.until for pause in self._pauses.values() if pause.until > now), default=math.inf)

    def problem_of_all(self, partitions: Iterable[TopicPartition]) -> Exception | None:
        """What went wrong with one of them, if something did with each."""
        problem = None
        for partition in partitions:
            if partition not in self._pauses:
                return None
            problem = problem or self._pauses[partition].problem
        return problem


def may_pass(problem: Exception) -> bool:
    """Whether trying again may help: nodes are away or slow, leaders move. It does not where we are not admitted,
    not authorized, or not understood. A topic that there is not is said at once."""
    if isinstance(problem, ApiError):
        return is_retriable(problem.code) and problem.code not in UNKNOWN_TOPIC
    return isinstance(problem, Disconnected | TimeoutError | NoBroker) and not isinstance(problem, NotAdmitted)


def is_worth_waiting(problem: Exception) -> bool:
    """Whether somebody who reads on and on waits for it to pass: a topic that does not exist may be made."""
    return may_pass(problem) or (isinstance(problem, ApiError) and problem.code in UNKNOWN_TOPIC)
