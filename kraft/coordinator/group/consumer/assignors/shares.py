"""How many partitions of each topic each member has. The partitions of a topic are alike to an assignor that balances
numbers, so it counts here, and names partitions in the end (`uniform.py`)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final


class Shares:
    """Members and topics are numbers. `takers` are the subscribers of each topic. Of each topic a member had `had`
    partitions and has `has`; topics of which it has none are absent. `loads` are what members have in all."""

    __slots__ = ("had", "has", "loads", "takers")

    def __init__(self, takers: Sequence[Sequence[int]], had: Sequence[dict[int, int]]) -> None:
        self.takers: Final = takers
        self.had: Final = had
        self.has: Final = [dict(topics) for topics in had]
        self.loads: Final = [sum(topics.values()) for topics in had]

    def give(self, topic: int, member: int) -> None:
        """One more for the member."""
        has = self.has[member]
        has[topic] = has.get(topic, 0) + 1
        self.loads[member] += 1

    def take(self, topic: int, member: int) -> None:
        """One less for the member."""
        has = self.has[member]
        has[topic] -= 1
        if not has[topic]:
            del has[topic]
        self.loads[member] -= 1

    def fill(self, free: Sequence[int]) -> None:
        """Give out the free partitions, so many of each topic, to the subscribers that have least; topics with few
        subscribers first."""
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
        """Move partitions from those who have most to those who have least, topic after topic, until nothing moves.
        Each move makes the sum of the squares of all loads smaller, so there is an end."""
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
