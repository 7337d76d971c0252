"""Faults of disks: power fails, no block is free, the kernel's writes fail, syncs of some files fail or take long, or
the whole disk is slow."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from jepsen import sandbox
from jepsen.nemesis.injection import Context, Injection, NotNow, grown
from jepsen.nemesis.process import kill_together, restart
from jepsen.node import lose_power
from jepsen.throttle import Refused, Throttle

BROKEN_SECONDS_MAX = 3.0
SYNC_DELAYS_SECONDS = (0.05, 0.3, 1.0)
SLOW_BYTES_PER_SECOND = 24 << 10
SLOW_SHARE_LEAST = 0.2
SLOW_END_SECONDS = 0.4
LATE_SECONDS = 5.0
DATA, QUORUM = "/data/events-", "/data/__cluster_metadata-"


def power(how_many: Callable[[int], int], role: str = "any") -> Callable[[Context], Injection]:
    """Cut the power of several nodes at the same moment, one of them with `role`. `how_many` returns how many for a
    cluster of that size."""

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

        return Injection(
            kind="power", role=f"{count} of {len(context.cluster.nodes)}: {numbers}", busy=frozenset(numbers), end=end
        )

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
    """Make the kernel's writes fail; one sync reports that. Then the disk works again, and the node must have noticed.

    At the end power fails: data that the node wrongly regards as written is gone.
    """
    number = context.pick("leader")
    node, disk = context.cluster.nodes[number], context.disk(number)
    try:
        disk.break_writes()
    except OSError as problem:
        raise NotNow(f"nobody would know whether it bit: {problem}") from problem
    context.recorder.power_loss([number])
    deadline = time.monotonic() + BROKEN_SECONDS_MAX
    while node.alive and time.monotonic() < deadline and not disk.has_refused():
        time.sleep(0.05)
    disk.mend_writes()

    def end() -> bool:
        lose_power([node])
        context.recorder.power_loss([number])
        node.launch()
        return disk.has_refused()

    return Injection(kind="disk-broken", role=f"leader n{number}", busy=frozenset({number}), end=end)


def sync_error(role: str, path: str) -> Callable[[Context], Injection]:
    """Make syncs of some files fail, once each; later ones claim to succeed. At the end power fails, and what was not
    synced is gone."""

    def begin(context: Context) -> Injection:
        number = context.pick(role)
        context.disk(number)
        node, page = context.cluster.nodes[number], context.page(number)
        failed = grown(lambda: page.counters().syncs_failed)
        page.fail_syncs(errno.EIO, path)
        context.recorder.power_loss([number])

        def end() -> bool:
            bit = failed()
            lose_power([node])
            context.recorder.power_loss([number])
            page.fail_syncs(0)
            node.launch()
            return bit

        return Injection(kind="sync-error", role=f"{role} n{number} {path}", busy=frozenset({number}), end=end)

    return begin


def sync_slow(role: str, path: str) -> Callable[[Context], Injection]:
    """Make syncs of some files of a node take up to a second."""

    def begin(context: Context) -> Injection:
        number = context.pick(role)
        page = context.page(number)
        delayed = grown(lambda: page.counters().syncs_delayed)
        seconds = context.chance.choice(SYNC_DELAYS_SECONDS)
        page.delay_syncs(seconds, path)

        def end() -> bool:
            page.delay_syncs(0)
            return delayed()

        return Injection(
            kind="sync-slow", role=f"{role} n{number} {path} {seconds:g} s", busy=frozenset({number}), end=end
        )

    return begin


def slow(context: Context) -> Injection:
    """Limit the whole disk to few bytes a second. It had an effect if the disk was busy with them for a good part of
    the time."""
    number = context.pick("leader")
    node, disk = context.cluster.nodes[number], context.disk(number)
    name = f"{sandbox.scratch_name()}-{number}"
    began = time.monotonic()
    try:
        throttle = Throttle(name, node.pid, disk.device_number(), SLOW_BYTES_PER_SECOND)
    except Refused as problem:
        raise NotNow(str(problem)) from problem

    def end() -> bool:
        busy = throttle.written_bytes() / SLOW_BYTES_PER_SECOND
        throttle.end()
        return busy > SLOW_SHARE_LEAST * (time.monotonic() - began)

    return Injection(kind="disk-slow", role=f"leader n{number}", busy=frozenset({number}), end=end)


def slow_end(
    how_many: Callable[[int], int], power_fails: bool, leader_late: bool = False
) -> Callable[[Context], Injection]:
    """Make syncs of data slow at several nodes, a leader among them; then cut the power of all of these, or kill them,
    at the same moment.

    Between an append and its sync there is little time; slow syncs make it likely that something is unsynced then.
    `leader_late`: the leader's own syncs are fast, so that only its followers delay acknowledgements; it comes back
    last, so that another node leads first.
    """

    def begin(context: Context) -> Injection:
        first = context.pick("leader")
        context.disk(first)
        others = [number for number in context.free() if number != first]
        count = how_many(len(context.cluster.nodes))
        if len(others) < count - 1:
            raise NotNow(f"only {len(others) + 1} nodes are free")
        numbers = sorted([first, *context.chance.sample(others, count - 1)])
        nodes = [context.cluster.nodes[number] for number in numbers]
        pages = [context.page(number) for number in numbers if not leader_late or number != first]
        delayed = grown(lambda: sum(page.counters().syncs_delayed for page in pages))
        for page in pages:
            page.delay_syncs(SLOW_END_SECONDS, DATA)

        def end() -> bool:
            bit = delayed()
            if power_fails:
                lose_power(nodes)
                context.recorder.power_loss(numbers)
            else:
                kill_together(nodes)
            for page in pages:
                page.delay_syncs(0)
            restart([node for node in nodes if not leader_late or node.number != first])
            if leader_late:
                time.sleep(LATE_SECONDS)
                restart([context.cluster.nodes[first]])
            return bit

        kind = f"slow-{'power' if power_fails else 'kill'}"
        return Injection(
            kind=kind,
            role=f"{numbers}{f', leader n{first} late' if leader_late else ''}",
            busy=frozenset(numbers),
            end=end,
        )

    return begin
