"""Chains of moves: a member gives a partition to a second one, which gives one of another topic to a third, and so on.

The first member of a chain ends with one partition less, the last with one more, and the others with as many as before.
Loads are as even as the subscriptions allow when no chain leads to a member with at least two partitions less than its
first (Harvey, Ladner, Lovász and Tamir, "Semi-matchings for bipartite graphs and load balancing").
"""

from __future__ import annotations

import heapq

from kraft.coordinator.group.consumer.assignors.shares import Shares

_Came = dict[int, tuple[int, int]]
"""By member, the previous member of its chain, which gives it a partition, and the topic of that partition."""


def even_out(shares: Shares) -> None:
    """Move along chains until no chain makes the loads more even. Each move lowers the sum of the squared loads, so
    this ends."""
    loads = shares.loads
    closed: set[int] = set()
    most = [(-load, member) for member, load in enumerate(loads)]
    heapq.heapify(most)
    while most:
        load, first = heapq.heappop(most)
        if -load != loads[first] or first in closed:
            continue
        came: _Came = {}
        last = _find_last(shares, first, closed, came)
        if last is None:
            # Each member reached has at least as many partitions as `first` less one, and gives to no other member. The
            # members with the most come first, so no later chain can end at them or pass through them.
            closed.add(first)
            closed.update(came)
            continue
        member = last
        while member != first:
            giver, topic = came[member]
            shares.take(topic, giver)
            shares.give(topic, member)
            member = giver
        heapq.heappush(most, (-loads[first], first))
        heapq.heappush(most, (-loads[last], last))


def _find_last(shares: Shares, first: int, closed: set[int], came: _Came) -> int | None:
    """Search for a shortest chain from `first` to a member with at least two partitions less. Returns that member, None
    if there is no such chain. `came` gets the step to each member that the search reaches."""
    loads, enough = shares.loads, shares.loads[first] - 2
    if enough < 0:
        return None
    seen_topics: set[int] = set()
    reached = [first]
    for giver in reached:  # It grows meanwhile.
        for topic in shares.has[giver]:
            if topic in seen_topics:
                continue
            seen_topics.add(topic)
            for taker in shares.takers[topic]:
                if taker in came or taker in closed or taker == first:
                    continue
                came[taker] = (giver, topic)
                if loads[taker] <= enough:
                    return taker
                reached.append(taker)
    return None
