"""How many partitions of each topic each member has. The balance depends on counts only, so the assignor works with
counts and selects partitions at the end (`uniform.py`)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final


class Shares:
    """Partition counts. Members and topics are numbers. `takers` are the subscribers of each topic. `had` and `has`
    count a member's partitions of each topic before and now; topics with none are absent. `loads` are the members'
    totals."""

    __slots__ = ("had", "has", "loads", "takers")

    def __init__(self, takers: Sequence[Sequence[int]], had: Sequence[dict[int, int]]) -> None:
        self.takers: Final = takers
        self.had: Final = had
        self.has: Final = [dict(topics) for topics in had]
        self.loads: Final = [sum(topics.values()) for topics in had]

    def give(self, topic: int, member: int) -> None:
        """Give the member one more partition of the topic."""
        has = self.has[member]
        has[topic] = has.get(topic, 0) + 1
        self.loads[member] += 1

    def take(self, topic: int, member: int) -> None:
        """Take one partition of the topic from the member."""
        has = self.has[member]
        has[topic] -= 1
        if not has[topic]:
            del has[topic]
        self.loads[member] -= 1

    def fill(self, free: Sequence[int]) -> None:
        """Assign the free partitions, `free[topic]` of each topic, to the least loaded subscribers. Topics with few
        subscribers come first."""
        loads = self.loads
        for topic in sorted(range(len(free)), key=lambda topic: (len(self.takers[topic]), topic)):
            if not free[topic]:
                continue
            least = [(loads[member], member) for member in self.takers[topic]]
            heapq.heapify(least)
            for _ in range(free[topic]):
                load, member = least[0]
                heapq.heapreplace(least, (load + 1, member))
                self.give(topic, member)

    def level(self) -> None:
        """Move partitions from the most to the least loaded subscribers, topic by topic, until nothing moves. Each move
        lowers the sum of the squared loads, so this ends."""
        shared = [topic for topic, takers in enumerate(self.takers) if len(takers) > 1]
        moved = True
        while moved:
            moved = False
            for topic in shared:
                moved = self._level_topic(topic) or moved

    def _level_topic(self, topic: int) -> bool:
        loads = self.loads
        owners = [member for member in self.takers[topic] if topic in self.has[member]]
        least_load = min(loads[member] for member in self.takers[topic])
        most = [(-loads[member], member) for member in owners if loads[member] - least_load >= 2]
        if not most:
            return False
        heapq.heapify(most)
        least = [(loads[member], member) for member in self.takers[topic]]
        heapq.heapify(least)
        moved = False
        while most:
            load, giver = heapq.heappop(most)
            if -load != loads[giver] or topic not in self.has[giver]:
                continue  # It gave since; its newer entry follows.
            while least[0][0] != loads[least[0][1]]:
                heapq.heapreplace(least, (loads[least[0][1]], least[0][1]))
            taker = least[0][1]
            if loads[giver] - loads[taker] < 2:
                break
            self.take(topic, giver)
            self.give(topic, taker)
            heapq.heappush(most, (-loads[giver], giver))
            heapq.heappush(most, (-loads[taker], taker))
            moved = True
        return moved
