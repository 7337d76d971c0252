"""The assignor `sticky` of streams groups gives the assignments of Apache Kafka's class, in the lives of random groups:
members join and leave, subtopologies grow, and members report offsets of their changelogs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from jepsen.java.kafka import java
from kraft.coordinator.group.streams.sticky_assignor import AssignedMember, TaskCount, assign
from kraft.coordinator.group.streams.tasks import Tasks, TaskSet, tasks_of
from tests.capabilities import require_capability

pytestmark = pytest.mark.java
PROGRAM = Path(__file__).parents[1] / "vectors" / "assignors" / "StickyAssignments.java"
SEEDS = range(20 if os.environ.get("KRAFT_SOAK") else 3)
GROUPS = 100
STEPS = 4
MEMBERS_MAX = 8

Assigned = dict[str, tuple[str, str]]


class KafkaAssignor:
    """Apache Kafka's class, in a JVM."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*java("-Xmx256M"), str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def assign(self, members: Sequence[AssignedMember], subtopologies: Sequence[TaskCount], standbys: int) -> Assigned:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line_of(members, subtopologies, standbys) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        return {id_: (active, standby) for id_, active, standby in (each.split("|") for each in answer.split(" "))}

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAssignor]:
    require_capability("java17")
    require_capability("mvn")
    started = KafkaAssignor()
    yield started
    started.close()


def line_of(members: Sequence[AssignedMember], subtopologies: Sequence[TaskCount], standbys: int) -> str:
    """The group as StickyAssignments.java reads it."""
    counts = ",".join(f"{each.subtopology_id}:{each.task_count}:{int(each.is_stateful)}" for each in subtopologies)
    told = (
        "|".join(
            (
                each.member_id,
                each.process_id,
                shown(each.active),
                shown(each.standby),
                ",".join(f"{name}_{index}_{offset}" for (name, index), offset in sorted(each.offsets.items())),
            )
        )
        for each in members
    )
    return f"{standbys};{counts};{' '.join(told)}"


def shown(tasks: Tasks) -> str:
    return ",".join(sorted(f"{name}_{index}" for name, index in tasks_of(tasks)))


class GroupLife:
    """A group whose members keep what they were assigned last. Processes are named in the order of their members: the
    two assignors walk through equally loaded ones in different orders otherwise."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.standbys = random.randint(0, 3)
        self.subtopologies = [
            TaskCount(f"p{number}", random.randint(1, 6), random.random() < 0.6)
            for number in range(random.randint(1, 3))
        ]
        self._ids = [f"P{number}" for number in range(random.randint(1, MEMBERS_MAX - 1))]
        self._processes = {each: f"p{random.randrange(len(self._ids))}" for each in self._ids}
        self._assigned: Mapping[str, TaskSet] = {}

    def members(self) -> list[AssignedMember]:
        used = sorted({self._processes[each] for each in self._ids})
        names = {process: f"p{number}" for number, process in enumerate(used)}
        tells = self._random.random() < 0.5
        tasks = [(each.subtopology_id, index) for each in self.subtopologies for index in range(each.task_count)]
        found = []
        for member_id in self._ids:
            had = self._assigned.get(member_id)
            offsets = {task: self._random.randint(0, 5) for task in tasks if tells and self._random.random() < 0.2}
            found.append(
                AssignedMember(
                    member_id,
                    names[self._processes[member_id]],
                    {} if had is None else had.active,
                    {} if had is None else had.standby,
                    offsets,
                )
            )
        return found

    def go_on(self, assigned: Mapping[str, TaskSet]) -> None:
        """Adopt the assignment; then a member joins or leaves, or the subtopologies get another task."""
        self._assigned = assigned
        dice = self._random.random()
        if dice < 0.4 and len(self._ids) < MEMBERS_MAX:
            joined = next(name for name in map("P{}".format, range(MEMBERS_MAX + 1)) if name not in self._ids)
            self._ids = sorted([*self._ids, joined])
            self._processes[joined] = f"p{self._random.randrange(MEMBERS_MAX)}"
            self._assigned = {each: tasks for each, tasks in assigned.items() if each != joined}
        elif dice < 0.7 and len(self._ids) > 1:
            self._ids.remove(self._random.choice(self._ids))
        elif dice < 0.85:
            self.subtopologies = [each._replace(task_count=each.task_count + 1) for each in self.subtopologies]


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_are_assigned_as_by_apache_kafka(kafka: KafkaAssignor, seed: int) -> None:
    random = Random(seed)
    for _ in range(GROUPS):
        life = GroupLife(random)
        for _ in range(STEPS):
            members = life.members()
            assigned = assign(members, life.subtopologies, life.standbys)
            ours = {member_id: (shown(tasks.active), shown(tasks.standby)) for member_id, tasks in assigned.items()}
            theirs = kafka.assign(members, life.subtopologies, life.standbys)
            assert ours == theirs, line_of(members, life.subtopologies, life.standbys)
            life.go_on(assigned)
