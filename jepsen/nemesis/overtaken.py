"""A leader acknowledges records alone, dies, and is overtaken: its followers are cut off until it is the whole in-sync
set, and come back without it.

If unclean elections are allowed, a follower leads without the records that it missed, and the old leader truncates them
when it comes back. Otherwise the partition waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jepsen.history import Sample
from jepsen.nemesis.injection import NETWORK, Context, Injection, NotNow
from jepsen.nemesis.network import between

SHRINK_SECONDS_MAX = 15.0
ALONE_SECONDS = 1.0
OVERTAKEN_SECONDS_MAX = 12.0


def leader(context: Context) -> Injection:
    """The fault. It had an effect if another node led before the leader came back."""
    context.need_network()
    name, number, followers = choose(context)
    node, network = context.cluster.nodes[number], context.switch()
    pairs = between([number], followers)
    network.cut(pairs)
    try:
        until(context, lambda sample: sample.partitions[name][2] == [number], SHRINK_SECONDS_MAX)
        time.sleep(ALONE_SECONDS)
        epoch = context.observer.latest.partitions[name][1]
        node.kill()
    finally:
        network.heal(pairs)
    until(context, lambda sample: sample.partitions[name][0] in followers, OVERTAKEN_SECONDS_MAX)

    def end() -> bool:
        now_leads, now_epoch, _, _ = context.observer.latest.partitions[name]
        node.launch()
        return now_leads in followers and now_epoch > epoch

    return Injection(kind="overtaken-leader", role=f"n{number} of {name}", busy=frozenset({number, NETWORK}), end=end)


def choose(context: Context) -> tuple[str, int, list[int]]:
    """Choose a partition whose replicas run, none of them the active controller: name, leader, followers. Raises
    NotNow."""
    sample, free = context.observer.latest, context.free()
    found = [
        (name, leads, [each for each in replicas if each != leads])
        for name, (leads, _, _, replicas) in sorted(sample.partitions.items())
        if leads in replicas and len(replicas) > 1 and set(replicas) <= set(free) - {sample.controller}
    ]
    if not found:
        raise NotNow("no partition is without the active controller")
    return context.chance.choice(found)


def until(context: Context, reached: Callable[[Sample], bool], seconds: float) -> None:
    """Wait until `reached`, at most `seconds`. Whether the fault had an effect is judged at its end."""
    deadline = time.monotonic() + seconds
    while not reached(context.observer.latest) and time.monotonic() < deadline:
        time.sleep(0.1)
