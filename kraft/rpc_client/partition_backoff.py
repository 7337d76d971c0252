"""Backoff for partitions that cannot be read now. Each has its own, so that none delays the others."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass

from kraft.admin.errors import UNKNOWN_TOPIC
from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import is_retriable
from kraft.rpc_client.backoff import Backoff
from kraft.rpc_client.connection import Disconnected, NotAdmitted
from kraft.rpc_client.errors import NoBroker


@dataclass(slots=True)
class _Pause:
    backoff: Backoff
    until: float
    problem: Exception


class PartitionBackoff:
    """The backoffs of one consumer. A failed partition is retried immediately, because its leader may have moved, and
    then after growing pauses."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._pauses: dict[TopicPartition, _Pause] = {}

    def clear(self) -> None:
        self._pauses.clear()

    def end(self, partition: TopicPartition) -> None:
        """End the partition's backoff: it was read, or is no longer assigned."""
        self._pauses.pop(partition, None)

    def begin(self, partition: TopicPartition, problem: Exception, now: float) -> None:
        pause = self._pauses.get(partition)
        if pause is None:
            self._pauses[partition] = _Pause(Backoff(self._chance), now, problem)
        else:
            pause.until, pause.problem = now + pause.backoff.next(), problem

    def ready(self, partitions: Iterable[TopicPartition], now: float) -> list[TopicPartition]:
        """Return the partitions that may be fetched now."""
        return [
            partition
            for partition in partitions
            if partition not in self._pauses or self._pauses[partition].until <= now
        ]

    def next_ready(self, now: float) -> float:
        """Return when the next backoff ends; infinity if there is none."""
        return min((pause.until for pause in self._pauses.values() if pause.until > now), default=math.inf)

    def problem_of_all(self, partitions: Iterable[TopicPartition]) -> Exception | None:
        """Return one partition's error if every partition is failing, else None."""
        problem = None
        for partition in partitions:
            if partition not in self._pauses:
                return None
            problem = problem or self._pauses[partition].problem
        return problem


def may_pass(problem: Exception) -> bool:
    """Whether a retry may help: nodes are down or slow, or leaders moved. It does not help if this client is not
    admitted, not authorized, or not understood. A missing topic is reported immediately, so it counts as an error that
    does not pass."""
    if isinstance(problem, ApiError):
        return is_retriable(problem.code) and problem.code not in UNKNOWN_TOPIC
    return isinstance(problem, Disconnected | TimeoutError | NoBroker) and not isinstance(problem, NotAdmitted)


def is_worth_waiting(problem: Exception) -> bool:
    """Whether a continuous reader should wait for the error to pass. Unlike in `may_pass`, a missing topic may be
    created."""
    return may_pass(problem) or (isinstance(problem, ApiError) and problem.code in UNKNOWN_TOPIC)
