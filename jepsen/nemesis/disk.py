"""What happens to disks: power fails, no block is free, what the kernel writes back fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from jepsen.nemesis.injection import Context, Injection, NotNow
from jepsen.nemesis.process import restart
from jepsen.node import lose_power

BROKEN_SECONDS_MAX = 3.0


def power(how_many: Callable[[int], int], role: str = "any") -> Callable[[Context], Injection]:
    """Of so many of n nodes at one moment, one of them with `role`."""

    def begin(context: Context) -> Injection:
        first = context.pick(role)
        context.disk(first)
        count = how_many(len(context.cluster.nodes))
        others = [number for number in context.free() if number != first]
        if len(others) < count - 1:
            raise NotNow(f"only {len(others) + 1} nodes are free")
        numbers = sorted([first, *context.chance.sample(others, count - 1)])
        nodes = [context.cluster.nodes[number] for number in numbers]
        lose_power(nodes)
        context.recorder.power_loss(numbers)

        def end() -> bool:
            restart(nodes)
            return True

        return Injection(kind="power", role=f"{count} of {len(context.cluster.nodes)}: {numbers}", busy=frozenset(numbers), end=end)

    return begin


def full(context: Context) -> Injection:
    number = context.pick("leader")
    disk = context.disk(number)
    disk.fill()
    filled = disk.free_bytes() < 64 << 10

    def end() -> bool:
        disk.empty()
        node = context.cluster.nodes[number]
        if not node.alive:
            node.launch()
        return filled

    return Injection(kind="disk-full", role=f"leader n{number}", busy=frozenset({number}), end=end)


def broken(context: Context) -> Injection:
    """What is written back fails, a sync says so once. Then the disk works again, as if nothing had been; the node has to have noticed.

    In the end power fails: what the node took for written and was not is gone.
    """
    number = context.pick("leader")
    node, disk = context.cluster.nodes[number], context.disk(number)
    disk.break_writes()
    context.recorder.power_loss([number])
    deadline = time.monotonic() + BROKEN_SECONDS_MAX
    while node.alive and time.monotonic() < deadline and not disk.failed():
        time.sleep(0.05)
    failed = disk.failed() or not node.alive
    disk.mend_writes()

    def end() -> bool:
        lose_power([node])
        context.recorder.power_loss([number])
        node.launch()
        return failed

    return Injection(kind="disk-broken", role=f"leader n{number}", busy=frozenset({number}), end=end)
