"""The assignor "sticky" (KIP-1071): active tasks stay where they are, or go where a standby copy is, as far as members
stay balanced. Pure.

The load of a process is its tasks over its members. Equal loads are ordered as in Kafka's assignor, by a binary heap.
It starts in the order of the ids, where Kafka's starts in the order of a hash table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from kraft.coordinator.group.streams.tasks import NO_TASKS, Task, Tasks, TaskSet, by_subtopology, tasks_of

T = TypeVar("T")


class AssignedMember(NamedTuple):
    """A member as the assignor sees it: its process, its current tasks, and the changelog offsets it reported."""

    member_id: str
    process_id: str
    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    offsets: Mapping[Task, int] = {}


class TaskCount(NamedTuple):
    """A subtopology with its number of tasks. Only stateful ones get standby tasks."""

    subtopology_id: str
    task_count: int
    is_stateful: bool


def assign(
    members: Sequence[AssignedMember], subtopologies: Sequence[TaskCount], standby_count: int
) -> dict[str, TaskSet]:
    """Assign every task to one member, and each stateful task to `standby_count` other processes, as far as there are
    that many. Returns the tasks by member id. `members` must not be empty if there are tasks."""
    return _Assignment(members, subtopologies, standby_count).run()


class _LoadHeap(Generic[T]):
    """A binary heap, smallest load first. Elements of equal load are never swapped, as in Java's PriorityQueue; `heapq`
    orders them otherwise."""

    def __init__(self, items: Sequence[T], load: Callable[[T], float]) -> None:
        self._load = load
        self._heap: list[T] = []
        for item in items:
            self.push(item)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, item: T) -> None:
        heap, place = self._heap, len(self._heap)
        heap.append(item)
        while place:
            parent = (place - 1) // 2
            if self._load(item) >= self._load(heap[parent]):
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = item

    def pop(self) -> T:
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            self._sink(last)
        return first

    def _sink(self, item: T) -> None:
        heap, place = self._heap, 0
        while (child := 2 * place + 1) < len(heap):
            if child + 1 < len(heap) and self._load(heap[child]) > self._load(heap[child + 1]):
                child += 1
            if self._load(item) <= self._load(heap[child]):
                break
            heap[place] = heap[child]
            place = child
        heap[place] = item


@dataclass(slots=True, eq=False)
class _Member:
    member_id: str
    process: _Process
    active: set[Task] = field(default_factory=set)
    standby: set[Task] = field(default_factory=set)

    @property
    def task_count(self) -> int:
        return len(self.active) + len(self.standby)


class _Ranked(NamedTuple):
    """An entry of a process's heap of members: a member, with its load at the time when the entry was added."""

    load: int
    member: _Member


class _Process:
    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.tasks: set[Task] = set()
        self._task_count = 0
        self._by_load: _LoadHeap[_Ranked] | None = None

    @property
    def load(self) -> float:
        return self._task_count / len(self.members)

    def add(self, member: _Member, task: Task, *, is_active: bool) -> int:
        """Give the member the task. Returns its new number of tasks."""
        self._by_load = None
        return self._add(member, task, is_active=is_active)

    def add_to_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Give the task to the member with the fewest. Returns its new number of tasks."""
        if self._by_load is None:
            ranked = [_Ranked(member.task_count, member) for member in self.members]
            self._by_load = _LoadHeap(ranked, lambda each: each.load)
        least = self._by_load.pop().member
        count = self._add(least, task, is_active=is_active)
        self._by_load.push(_Ranked(count, least))
        return count

    def _add(self, member: _Member, task: Task, *, is_active: bool) -> int:
        (member.active if is_active else member.standby).add(task)
        self.tasks.add(task)
        self._task_count += 1
        return member.task_count


class _Quota:
    """The number of tasks up to which a member gets tasks: the average, rounded up, over the members that have not
    reached their number yet."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = _share(tasks, members)

    def note(self, count: int) -> None:
        """Record that a member now has `count` tasks."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = _share(self._tasks, self._members)


def _share(tasks: int, members: int) -> int:
    return -(-tasks // members) if members else 0


class _Assignment:
    def __init__(
        self, members: Sequence[AssignedMember], subtopologies: Sequence[TaskCount], standby_count: int
    ) -> None:
        self._subtopologies = subtopologies
        self._standby_count = standby_count
        self._processes: dict[str, _Process] = {}
        self._members: list[_Member] = []
        self._former_active: dict[Task, _Member] = {}
        copies: dict[Task, list[tuple[int, int, _Member]]] = {}
        for each in members:
            process = self._processes.setdefault(each.process_id, _Process())
            member = _Member(each.member_id, process)
            process.members.append(member)
            self._members.append(member)
            for task in tasks_of(each.active):
                self._former_active[task] = member
            held = set(tasks_of(each.standby))
            for task in sorted({*held, *each.offsets}):
                copies.setdefault(task, []).append((task not in held, -each.offsets.get(task, 0), member))
        self._copies = {
            task: [member for _, _, member in sorted(found, key=lambda each: each[:2])]
            for task, found in copies.items()
        }
        active_count = sum(each.task_count for each in subtopologies)
        copy_count = sum(each.task_count * standby_count for each in subtopologies if each.is_stateful)
        self._active_quota = _Quota(active_count, len(members))
        self._quota = _Quota(active_count + copy_count, len(members))

    def run(self) -> dict[str, TaskSet]:
        self._assign_active()
        if self._standby_count:
            self._assign_standby()
        return {
            member.member_id: TaskSet(by_subtopology(member.active), by_subtopology(member.standby))
            for member in self._members
        }

    def _tasks(self, *, only_stateful: bool) -> list[Task]:
        return [
            (each.subtopology_id, partition)
            for each in self._subtopologies
            if each.is_stateful or not only_stateful
            for partition in range(each.task_count)
        ]

    def _assign_active(self) -> None:
        tasks = sorted(self._tasks(only_stateful=False), key=lambda task: (task[1], task[0]))
        tasks = [task for task in tasks if not self._give_active(self._former_active.get(task), task)]
        tasks = [task for task in tasks if not self._give_active(self._least_loaded_copy(task), task)]
        by_load = self._by_load()
        for task in sorted(tasks):
            process = by_load.pop()
            self._note_active(process.add_to_least_loaded(task, is_active=True))
            by_load.push(process)

    def _give_active(self, member: _Member | None, task: Task) -> bool:
        """Give the member the active task if it is below its quota."""
        if member is None or member.task_count >= self._active_quota.each:
            return False
        self._note_active(member.process.add(member, task, is_active=True))
        return True

    def _note_active(self, count: int) -> None:
        self._active_quota.note(count)
        self._quota.note(count)

    def _least_loaded_copy(self, task: Task, *, for_standby: bool = False) -> _Member | None:
        """The member with the least load among those with a copy of the task. A member replaces an earlier one only if
        both its process's load and its own are smaller. With `for_standby`, processes that have the task already are
        left out."""
        found: _Member | None = None
        loads = (0.0, 0)
        for member in self._copies.get(task, ()):
            if for_standby and task in member.process.tasks:
                continue
            mine = (member.process.load, member.task_count)
            if found is None or (mine[0] < loads[0] and mine[1] < loads[1]):
                found, loads = member, mine
        return found

    def _by_load(self) -> _LoadHeap[_Process]:
        return _LoadHeap([self._processes[each] for each in sorted(self._processes)], lambda process: process.load)

    def _assign_standby(self) -> None:
        left: list[tuple[Task, int]] = []
        for task in sorted(self._tasks(only_stateful=True), key=lambda task: (task[1], task[0]), reverse=True):
            count = self._standby_count
            while count and self._give_standby(task):
                count -= 1
            left.append((task, count))
        by_load = self._by_load()
        for task, count in sorted(left, reverse=True):
            for _ in range(count):
                if not self._give_to_least_loaded(by_load, task):
                    break  # Every process has the task already.

    def _give_standby(self, task: Task) -> bool:
        """Give the standby task to its former active member or to a former copy, below their quota."""
        former = self._former_active.get(task)
        if former is not None and task not in former.process.tasks and former.task_count < self._quota.each:
            self._quota.note(former.process.add(former, task, is_active=False))
            return True
        copy = self._least_loaded_copy(task, for_standby=True)
        if copy is None or copy.task_count >= self._quota.each:
            return False
        self._quota.note(copy.process.add(copy, task, is_active=False))
        return True

    def _give_to_least_loaded(self, by_load: _LoadHeap[_Process], task: Task) -> bool:
        """Give the standby task to the process with the least load that does not have it."""
        passed: list[_Process] = []
        found = False
        while by_load and not found:
            process = by_load.pop()
            passed.append(process)
            if task not in process.tasks:
                self._quota.note(process.add_to_least_loaded(task, is_active=False))
                found = True
        for process in reversed(passed):
            by_load.push(process)
        return found
