"""The application of a life: its topology, and the threads that are its members."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final, NamedTuple

Plain = Any
Tasks = dict[str, set[int]]

NAMES: Final = "0123456789:;"
"""Of members, one after the other."""
SECOND_PROCESS_FROM: Final = "3"
"""The members before this one are of the process `r`; the others are of `p` or `s`."""
KINDS: Final = ("active_tasks", "standby_tasks", "warmup_tasks")


class Shape(NamedTuple):
    """A topology, with the topics that it reads and those that are created for it."""

    subtopologies: list[dict[str, Plain]]
    sources: list[str]
    internal: list[str]


def shape(source: Random, group: str) -> Shape:
    """A topology at random."""
    made: Callable[[str], Shape] = source.choice([_plain, _stateful, _repartitioned, _two, _joined])
    return made(group)


def _topic(name: str, partitions: int = 0) -> dict[str, Plain]:
    return {"name": name, "partitions": partitions, "replication_factor": 1, "topic_configs": []}


def _plain(group: str) -> Shape:
    return Shape([{"subtopology_id": "0", "source_topics": [f"{group}-s"]}], [f"{group}-s"], [])


def _stateful(group: str) -> Shape:
    changelog = f"{group}-c"
    reads = {"subtopology_id": "0", "source_topics": [f"{group}-s"], "state_changelog_topics": [_topic(changelog)]}
    return Shape([reads], [f"{group}-s"], [changelog])


def _repartitioned(group: str) -> Shape:
    between, changelog = f"{group}-r", f"{group}-c"
    first = {"subtopology_id": "0", "source_topics": [f"{group}-s"], "repartition_sink_topics": [between]}
    second = {
        "subtopology_id": "1",
        "repartition_source_topics": [_topic(between)],
        "state_changelog_topics": [_topic(changelog)],
    }
    return Shape([first, second], [f"{group}-s"], [between, changelog])


def _two(group: str) -> Shape:
    changelog = f"{group}-c"
    first = {"subtopology_id": "0", "source_topics": [f"{group}-s"]}
    second = {"subtopology_id": "1", "source_topics": [f"{group}-t"], "state_changelog_topics": [_topic(changelog)]}
    return Shape([first, second], [f"{group}-s", f"{group}-t"], [changelog])


def _joined(group: str) -> Shape:
    """Two topics that must have the same number of partitions, and a repartition topic with as many."""
    between, changelog = f"{group}-r", f"{group}-c"
    writes = {"subtopology_id": "0", "source_topics": [f"{group}-s"], "repartition_sink_topics": [between]}
    joins = {
        "subtopology_id": "1",
        "source_topics": [f"{group}-t"],
        "repartition_source_topics": [_topic(between)],
        "state_changelog_topics": [_topic(changelog)],
        "copartition_groups": [
            {"source_topics": [0], "source_topic_regex": [], "repartition_source_topics": [0]},
        ],
    }
    return Shape([writes, joins], [f"{group}-s", f"{group}-t"], [between, changelog])


class Thread:
    """A member as it believes itself to be. `was` are its tasks before the last answer that changed them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process = self.processes[0]
        self.instance: str | None = None
        self.forget()

    def forget(self) -> None:
        """Give up everything, as one that was fenced."""
        self.epoch = self.previous_epoch = 0
        self.endpoint_epoch = -1
        self.tasks: dict[str, Tasks] = {kind: {} for kind in KINDS}
        self.was = self.tasks

    @property
    def number(self) -> int:
        return NAMES.index(self.name)

    @property
    def processes(self) -> str:
        """The processes that it may be of. Kafka's table of the processes of two members has two places, and `p` and
        `r` share one, in which that of the later member comes first."""
        return "r" if self.name < SECOND_PROCESS_FROM else "ps"

    @property
    def is_member(self) -> bool:
        return self.epoch > 0

    def hear(self, answer: dict[str, Plain]) -> None:
        """Adopt the answer to a heartbeat that was not refused."""
        if answer["member_epoch"] != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, answer["member_epoch"]
        self.endpoint_epoch = answer["endpoint_information_epoch"]
        if answer["active_tasks"] is not None:
            self.was = self.tasks
            self.tasks = {kind: tasks_of(answer[kind]) for kind in KINDS}


def tasks_of(told: Iterable[dict[str, Plain]]) -> Tasks:
    return {each["subtopology_id"]: set(each["partitions"]) for each in told}


def told_tasks(tasks: dict[str, Tasks]) -> dict[str, Plain]:
    """The fields of a heartbeat that report tasks."""
    return {
        kind: [{"subtopology_id": name, "partitions": sorted(parts)} for name, parts in sorted(found.items())]
        for kind, found in tasks.items()
    }
