"""Sets of tasks. A task is a partition of a subtopology."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

Task = tuple[str, int]
"""Subtopology id and partition."""
Tasks = Mapping[str, frozenset[int]]
"""Partitions by subtopology id; a subtopology without tasks is absent. Never changed, only replaced."""
TaskEpochs = Mapping[str, Mapping[int, int]]
"""By subtopology id, partitions and the epoch in which the member got each. Never changed, only replaced."""

NO_TASKS: Final[Tasks] = {}
NO_EPOCHS: Final[TaskEpochs] = {}


class TaskSet(NamedTuple):
    """The tasks of a member, by kind: its target, or those that it reports to own."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class HeldTasks(NamedTuple):
    """The tasks that a member has, or has yet to revoke, by kind."""

    active: TaskEpochs = NO_EPOCHS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NOTHING_WANTED: Final = TaskSet()
NOTHING_HELD: Final = HeldTasks()


def tasks_of(tasks: Tasks | TaskEpochs) -> Iterator[Task]:
    """The tasks one by one, unordered within a subtopology."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:  # unordered: every caller sorts, or builds a set
            yield subtopology, partition


def by_subtopology(tasks: Iterable[Task]) -> Tasks:
    """Group tasks by subtopology, sorted by its id."""
    found: dict[str, set[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, set()).add(partition)
    return {subtopology: frozenset(partitions) for subtopology, partitions in found.items()}


def epochs_by_subtopology(tasks: Mapping[Task, int]) -> TaskEpochs:
    """Group tasks with their epochs by subtopology, sorted."""
    found: dict[str, dict[int, int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, {})[partition] = tasks[subtopology, partition]
    return found
