"""Laws of streams groups (KIP-1071), whatever members do and lose:

- No active task has two owners: what two members believe to run, in epochs that are not fenced, is disjoint.
- No process has a task twice.
- Once everybody has settled, each task runs in exactly one member, and has as many standby copies as there are other
  processes, at most the number wanted.
- The log tells what the coordinator believes: replayed from the start, it gives the same state.

And of the assignor: every task goes to one member, standby tasks to other processes, and no member has more active
tasks than its share.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.coordinator.group.streams.settings import StreamsGroupSettings
from kraft.coordinator.group.streams.sticky_assignor import AssignedMember, TaskCount, assign
from kraft.coordinator.group.streams.tasks import Task, TaskSet, tasks_of
from kraft.protocol.error_codes import ErrorCode
from tests.unit.coordinator.group.streams.applications import Application, reads, topology

EXAMPLES = 2000 if os.environ.get("KRAFT_SOAK") else 40
STEPS = 60
FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)

relaxed = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


class StreamsLife:
    """The threads of an application, in up to three processes, and what may happen to them. A thread that is fenced
    gives up its tasks and joins again; one that crashes is silent."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.it = Application(topology(reads("t", stores=["u"]), reads("v", name="1")))
        self.it.host.topics.names = ["t", "u", "v"]
        self.it.host.topics.counts = {"t": 3, "u": 3, "v": 2}
        self.alive: list[str] = []
        self.made = 0

    def step(self) -> None:
        deeds = [self.beat] * 8 + [self.join] * 2 + [self.advance] * 2
        deeds += [self.lose_answer, self.leave, self.crash, self.configure, self.grow, self.reload, self.restart]
        self.random.choice(deeds)()
        self.check()

    def join(self) -> None:
        if len(self.alive) < 6:
            self.made += 1
            member = f"{self.random.choice('abc')}{self.made}"
            if self.random.random() < 0.3:
                self.it.instances[member] = f"instance of {member}"
            self.alive.append(member)
            self.it.join(member)

    def beat(self, *, adopt: bool = True) -> None:
        if self.alive:
            self.send(self.random.choice(self.alive), adopt=adopt)

    def send(self, member: str, *, adopt: bool = True) -> None:
        try:
            self.it.beat(member, adopt=adopt)
        except ApiError as refused:
            if refused.code not in FENCED:
                raise
            self.alive.remove(member)
            self.forget(member)

    def forget(self, member: str) -> None:
        """The thread gives up its tasks."""
        del self.it.owned[member], self.it.epochs[member]

    def lose_answer(self) -> None:
        self.beat(adopt=False)

    def leave(self) -> None:
        if self.alive:
            member = self.alive.pop(self.random.randrange(len(self.alive)))
            if member in self.it.group.members:
                self.it.leave(member)
            self.forget(member)

    def restart(self) -> None:
        """A static member leaves for a while and comes back in the same process, under another id."""
        static = [each for each in self.alive if each in self.it.instances and each in self.it.group.members]
        if static:
            member = self.random.choice(static)
            self.it.leave(member, -2)
            self.made += 1
            successor = f"{member[0]}{self.made}"
            self.it.instances[successor] = self.it.instances[member]
            self.alive[self.alive.index(member)] = successor
            self.forget(member)
            self.it.join(successor)

    def crash(self) -> None:
        """The thread is silent, and believes in its tasks until it is removed."""
        if self.alive:
            self.alive.pop(self.random.randrange(len(self.alive)))

    def configure(self) -> None:
        configs = self.it.host.streams_configs
        configs.settings = replace(
            configs.settings,
            standby_count=self.random.randrange(3),
            assignment_interval_ms=self.random.choice([0, 1_000]),
            initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
        )

    def grow(self) -> None:
        counts = self.it.host.topics.counts
        counts["v"] = min(6, counts["v"] + 1)

    def reload(self) -> None:
        """Another node takes over. The log must tell what the coordinator believed."""
        before = self.it.host.state.streams_groups
        self.it.host.load()
        assert self.it.host.state.streams_groups == before

    def advance(self) -> None:
        self.it.host.advance(self.random.choice([10, 1_000, 20_000]))

    def check(self) -> None:
        group = self.it.host.state.streams_groups.get("g")
        if group is None:
            return
        running: Counter[Task] = Counter()
        in_process: Counter[tuple[str, Task]] = Counter()
        for member_id, (active, _, _) in self.it.owned.items():
            member = group.members.get(member_id)
            if member is not None and self.it.epochs[member_id] in (member.member_epoch, member.previous_epoch):
                running.update((name, part) for name, parts in active.items() for part in parts)
        assert all(count == 1 for count in running.values()), "an active task has two owners"
        for member in group.members.values():
            held: set[Task] = set()
            for tasks in (member.assigned, member.revoking):
                held |= {*tasks_of(tasks.active), *tasks_of(tasks.standby), *tasks_of(tasks.warmup)}
            in_process.update((member.process_id, task) for task in held)
        assert all(count == 1 for count in in_process.values()), "a process has a task twice"

    def settle(self) -> None:
        """Everybody left gets its target."""
        self.it.host.advance(60_000)
        self.alive = [member for member in self.alive if member in self.it.group.members]
        for member in [*self.it.owned]:
            if member not in self.alive:
                self.forget(member)
        self.it.host.streams_configs.settings = StreamsGroupSettings(
            assignment_interval_ms=0, initial_rebalance_delay_ms=0, standby_count=1
        )
        self.it.join("a")
        self.alive.append("a")
        for _ in range(8):
            for member in [*self.alive]:
                self.send(member)
            self.check()
        group = self.it.group
        assert group.state == "Stable"
        self.reload()
        counts = self.it.host.topics.counts
        wanted = [("0", part) for part in range(counts["t"])] + [("1", part) for part in range(counts["v"])]
        assert sorted(_all(self.it, 0)) == wanted
        processes = {member.process_id for member in group.members.values()}
        assert sorted(_all(self.it, 1)) == [task for task in wanted if task[0] == "0"] * min(1, len(processes) - 1)


def _all(it: Application, kind: int) -> list[Task]:
    return [(name, part) for owned in it.owned.values() for name, parts in owned[kind].items() for part in parts]


@relaxed
@given(st.integers(0, 2**32))
@example(0)
@example(1)
def test_every_task_has_one_owner_in_any_life(seed: int) -> None:
    life = StreamsLife(seed)
    life.join()
    for _ in range(STEPS):
        life.step()
    life.settle()


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[AssignedMember], list[TaskCount], int]:
    """Members in processes, perhaps with tasks that an assignor gave them, and the subtopologies."""
    subtopologies = [
        TaskCount(name, draw(st.integers(1, 6)), draw(st.booleans())) for name in "xyz"[: draw(st.integers(1, 3))]
    ]
    processes = draw(st.lists(st.sampled_from("pqrs"), min_size=1, max_size=6))
    members = [AssignedMember(f"m{index}", process) for index, process in enumerate(processes)]
    standby_count = draw(st.integers(0, 3))
    if draw(st.booleans()):
        had = assign(members, subtopologies, draw(st.integers(0, 3)))
        members = [
            each._replace(active=had[each.member_id].active, standby=had[each.member_id].standby) for each in members
        ]
        members = draw(st.lists(st.sampled_from(members), min_size=1, unique_by=lambda each: each.member_id))
        members.append(AssignedMember("new", draw(st.sampled_from("pqrst"))))
    return members, subtopologies, standby_count


@relaxed
@given(groups())
def test_the_sticky_assignor_gives_each_task_to_one_member(
    case: tuple[list[AssignedMember], list[TaskCount], int],
) -> None:
    members, subtopologies, standby_count = case
    found = assign(members, subtopologies, standby_count)
    process_of = {each.member_id: each.process_id for each in members}
    wanted = {(each.subtopology_id, part) for each in subtopologies for part in range(each.task_count)}
    active = [task for tasks in found.values() for task in tasks_of(tasks.active)]
    assert sorted(active) == sorted(wanted)
    share = -(-len(wanted) // len(members))
    if len({*process_of.values()}) == len(members):
        assert max(len(list(tasks_of(tasks.active))) for tasks in found.values()) <= share
    stateful = {each.subtopology_id for each in subtopologies if each.is_stateful}
    copies: Counter[Task] = Counter()
    for member_id, tasks in found.items():
        for task in tasks_of(tasks.standby):
            copies[task] += 1
            assert task[0] in stateful
            owners = [other for other, each in found.items() if task in set(tasks_of(each.active))]
            assert process_of[owners[0]] != process_of[member_id]
    enough = min(standby_count, len({*process_of.values()}) - 1)
    assert all(copies[task] == enough for task in wanted if task[0] in stateful)


@relaxed
@given(groups())
def test_the_sticky_assignor_moves_nothing_without_a_reason(
    case: tuple[list[AssignedMember], list[TaskCount], int],
) -> None:
    """What it assigned to the same members is assigned again."""
    members, subtopologies, _ = case
    before = assign([each._replace(active={}, standby={}) for each in members], subtopologies, 0)
    kept = [each._replace(active=before[each.member_id].active, standby={}) for each in members]
    share = -(-sum(each.task_count for each in subtopologies) // len(members))
    if all(len(list(tasks_of(tasks.active))) <= share for tasks in before.values()):
        assert assign(kept, subtopologies, 0) == before
    assert all(isinstance(tasks, TaskSet) for tasks in before.values())
