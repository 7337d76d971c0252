"""Undoes moves that balance does not need: returns partitions to members that had them.

A member that receives a partition of a topic of which it lost some retains one more. A member that gives one of a topic
of which it gained some retains as many. So a cycle of moves from member to member may retain more partitions while all
loads stay equal. A cycle may also go from a member to one that has one partition more; those two swap loads. If the
loads are as even as possible and no such cycle is left, no assignment with these loads moves fewer partitions.

The cycles are those of negative cost in the residual network of a flow of partitions from topics to members (Ahuja,
Magnanti and Orlin, "Network Flows", chapter 9), found by relaxing distances.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from kraft.coordinator.group.consumer.assignors.shares import Shares

STEPS_MIN: Final = 40_000
"""Steps that a search may always take: about ten milliseconds, which a heartbeat can wait."""
STEPS_A_PARTITION: Final = 20
"""Steps that a search may take in addition, for each partition. Beyond the limit, the best result found so far is
used."""


def bring_back(shares: Shares) -> None:
    """Move along cycles until there is none, or the step limit is reached. Loads must be as even as possible."""
    search = _Search(shares)
    while (ring := search.find_ring()) is not None:
        for node, after in zip(ring, [*ring[1:], ring[0]], strict=True):
            search.move(node, after)


class _Search:
    """The search for cycles. Nodes are numbers: members, then topics, then loads. A cycle goes from a member to a topic
    of which it gives a partition, and from a topic to a member that receives one. From a member that neither gives nor
    receives it goes to its load, and from a load to a member with one partition more, which gives one and receives
    none.

    `wanting` are the members that lost partitions of a topic; `laden` the members of each load; `gained` the members
    and topics with more partitions than before.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._first_topic = len(shares.has)
        self._first_load = self._first_topic + len(shares.takers)
        partitions = sum(shares.loads)
        self._steps_left = max(STEPS_MIN, STEPS_A_PARTITION * partitions)
        self._wanting: list[dict[int, None]] = [{} for _ in shares.takers]
        self._laden: dict[int, dict[int, None]] = {}
        self._gained: dict[tuple[int, int], None] = {}
        for member, load in enumerate(shares.loads):
            self._laden.setdefault(load, {})[member] = None
            for topic in dict.fromkeys([*shares.had[member], *shares.has[member]]):
                self._note(topic, member)

    def _note(self, topic: int, member: int) -> None:
        """Record whether the member has fewer or more partitions of the topic than before."""
        more = self._shares.has[member].get(topic, 0) - self._shares.had[member].get(topic, 0)
        if more > 0:
            self._gained[member, topic] = None
        else:
            self._gained.pop((member, topic), None)
        if more < 0:
            self._wanting[topic][member] = None
        else:
            self._wanting[topic].pop(member, None)

    def move(self, node: int, after: int) -> None:
        """Apply one step of a cycle, from a node to the next."""
        if node < self._first_topic <= after < self._first_load:
            self._change(self._shares.take, after - self._first_topic, node)
        elif after < self._first_topic <= node < self._first_load:
            self._change(self._shares.give, node - self._first_topic, after)

    def _change(self, change: Callable[[int, int], None], topic: int, member: int) -> None:
        del self._laden[self._shares.loads[member]][member]
        change(topic, member)
        self._laden.setdefault(self._shares.loads[member], {})[member] = None
        self._note(topic, member)

    def find_ring(self) -> list[int] | None:
        """The nodes, in order, of a cycle that lets more partitions stay; None if there is none."""
        if not any(self._wanting):
            return None
        distances: dict[int, int] = {}
        came: dict[int, int] = {}
        waiting = deque(dict.fromkeys(member for member, _ in self._gained))
        queued = set(waiting)
        while waiting and self._steps_left > 0:
            node = waiting.popleft()
            queued.discard(node)
            distance = distances.get(node, 0)
            for after, cost in self._steps(node, distance):
                self._steps_left -= 1
                if distance + cost >= distances.get(after, 0):
                    continue
                ring = self._back(came, node, after)
                if ring:
                    return ring
                distances[after] = distance + cost
                came[after] = node
                if after not in queued:
                    queued.add(after)
                    waiting.append(after)
        return None

    def _steps(self, node: int, distance: int) -> Iterator[tuple[int, int]]:
        """The next nodes of a cycle, with the number of partitions moved. Only steps that may bring a distance
        below 0."""
        if node < self._first_topic:
            had = self._shares.had[node]
            for topic, has in self._shares.has[node].items():
                yield self._first_topic + topic, -1 if has > had.get(topic, 0) else 0
            yield self._first_load + self._shares.loads[node], 0
        elif node < self._first_load:
            topic = node - self._first_topic
            for member in self._wanting[topic]:
                yield member, 0
            if distance < -1:
                for member in self._shares.takers[topic]:
                    yield member, 1
        else:
            for member in self._laden.get(node - self._first_load + 1, ()):
                yield member, 0

    def _back(self, came: dict[int, int], node: int, after: int) -> list[int]:
        """The path to `node` from `after` on; empty if the search did not pass there."""
        way = [node]
        while node != after:
            self._steps_left -= 1
            if node not in came:
                return []
            node = came[node]
            way.append(node)
        return way[::-1]
