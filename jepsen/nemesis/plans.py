"""The order of faults. A plan is a list of steps or a mixture drawn from a seed. Every fault has a name."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jepsen.nemesis import clock, disk, joining, membership, network, overtaken, process, rolling, store
from jepsen.nemesis.injection import Context, Injection
from jepsen.s3_server import Fault
from jepsen.wire import Quality

Begin = Callable[[Context], Injection]

STORE_FAULTS: dict[str, Begin] = {
    "store-out": store.fails("store-out", Fault.OUTAGE),
    "store-errors": store.fails("store-errors", Fault.ERROR),
    "store-slow": store.fails("store-slow", Fault.SLOW),
    "store-cut-answers": store.fails("store-cut-answers", Fault.TRUNCATED),
    "store-lost-answers": store.fails("store-lost-answers", Fault.LOST_ANSWER),
}
STORE_FAULTS |= {
    "store-out-kill-leader": store.both(STORE_FAULTS["store-out"], process.kill("leader")),
    "store-out-kill-all": store.both(STORE_FAULTS["store-out"], process.kill_many(lambda count: count)),
    "store-out-power-one": store.both(STORE_FAULTS["store-out"], disk.power(lambda count: 1, "leader")),
    "store-slow-kill-leader": store.both(STORE_FAULTS["store-slow"], process.kill("leader")),
    "store-lost-answers-kill-leader": store.both(STORE_FAULTS["store-lost-answers"], process.kill("leader")),
    "store-lost-answers-isolate-leader": store.both(STORE_FAULTS["store-lost-answers"], network.isolate("leader")),
    "store-errors-halves": store.both(STORE_FAULTS["store-errors"], network.halves),
}
"""Only where a topic is tiered."""

FAULTS: dict[str, Begin] = {
    "isolate-leader": network.isolate("leader"),
    "isolate-leader-and-clients": network.isolate("leader", clients=True),
    "isolate-controller": network.isolate("controller"),
    "isolate-coordinator": network.isolate("coordinator"),
    "halves": network.halves,
    "bridge": network.bridge,
    "ring": network.ring,
    "mute-leader": network.one_way("leader", outgoing=True),
    "deaf-leader": network.one_way("leader", outgoing=False),
    "mute-controller": network.one_way("controller", outgoing=True),
    "deaf-controller": network.one_way("controller", outgoing=False),
    "mute-follower": network.one_way("follower", outgoing=True),
    "clients": network.clients_only,
    "loss": network.loss,
    "slow-network": network.slow,
    "late-frames": network.cable("late-frames", Quality(delay=0.03, jitter=0.06)),
    "reordered-frames": network.cable("reordered-frames", Quality(delay=0.001, jitter=0.01, overtaken=0.05)),
    "doubled-frames": network.cable("doubled-frames", Quality(jitter=0.002, twice=0.2, overtaken=0.02)),
    "kill-leader": process.kill("leader"),
    "kill-controller": process.kill("controller"),
    "kill-coordinator": process.kill("coordinator"),
    "kill-follower": process.kill("follower"),
    "kill-majority": process.kill_many(lambda count: count // 2 + 1),
    "kill-all": process.kill_many(lambda count: count),
    "pause-leader": process.pause("leader"),
    "pause-controller": process.pause("controller"),
    "pause-follower": process.pause("follower"),
    "slow-processor": process.slow_processor,
    "leave": process.leave,
    "power-one": disk.power(lambda count: 1, "leader"),
    "power-controller": disk.power(lambda count: 1, "controller"),
    "power-majority": disk.power(lambda count: count // 2 + 1),
    "power-all": disk.power(lambda count: count),
    "disk-full": disk.full,
    "disk-broken": disk.broken,
    "disk-slow": disk.slow,
    "sync-error-data": disk.sync_error("leader", disk.DATA),
    "sync-error-quorum": disk.sync_error("controller", disk.QUORUM),
    "sync-slow-data": disk.sync_slow("leader", disk.DATA),
    "sync-slow-quorum": disk.sync_slow("controller", disk.QUORUM),
    "slow-power-leader": disk.slow_end(lambda count: 1, power_fails=True),
    "slow-power-all": disk.slow_end(lambda count: count, power_fails=True, leader_late=True),
    "slow-kill-all": disk.slow_end(lambda count: count, power_fails=False),
    "clock-jump-leader": clock.jump("leader"),
    "clock-jump-controller": clock.jump("controller"),
    "clock-jump-coordinator": clock.jump("coordinator"),
    "clock-drift": clock.drift,
    "clock-speed-leader": clock.timeouts("leader"),
    "clock-speed-controller": clock.timeouts("controller"),
    "unreachable-leader": process.unreachable("leader"),
    "unreachable-controller": process.unreachable("controller"),
    "preferred-leaders": membership.transfer,
    "reassign": membership.reassign,
    "voter-leaves": membership.voter_leaves,
    "overtaken-leader": overtaken.leader,
    "node-joins": joining.join,
    "node-leaves": joining.leave_for_good,
    "node-replaced": joining.replace,
    "roll": rolling.roll,
    **STORE_FAULTS,
}
NEED_FLUSH = frozenset(
    {
        "power-majority",
        "power-all",
        "slow-power-leader",
        "slow-power-all",
        "slow-kill-all",
        "sync-error-data",
        "sync-slow-data",
    }
)
"""Faults that may lose acknowledged records without flush.messages=1, as in Kafka, or that have no effect without
syncs."""
PRELOADED = frozenset({name for name in FAULTS if name.startswith(("clock-", "sync-", "slow-power-", "slow-kill-"))})
"""Faults that need the library of `jepsen/preload` in the nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a plan: begin a fault, hold it, end it, and wait."""

    fault: str
    hold: float
    rest: float


STEADY = "steady"
"""The plan that moves the leadership of the quorum by kills. In a cluster of both programs no node changes its own."""

NAMED: dict[str, tuple[Step, ...]] = {
    "calm": (),
    "power-all": (Step(fault="power-all", hold=0.2, rest=7.0), Step(fault="kill-leader", hold=1.0, rest=2.0)),
    "power": (
        Step(fault="power-one", hold=0.5, rest=3.0),
        Step(fault="power-majority", hold=0.5, rest=5.0),
        Step(fault="power-controller", hold=0.5, rest=3.0),
        Step(fault="power-all", hold=0.5, rest=6.0),
    ),
    "first": (
        Step(fault="isolate-leader", hold=4.0, rest=1.0),
        Step(fault="kill-leader", hold=1.0, rest=1.0),
        Step(fault="power-all", hold=0.2, rest=6.0),
        Step(fault="mute-leader", hold=4.0, rest=1.0),
        Step(fault="pause-controller", hold=4.0, rest=1.0),
    ),
    "partitions": tuple(
        Step(fault=name, hold=5.0, rest=1.5)
        for name in (
            "isolate-leader",
            "halves",
            "mute-leader",
            "bridge",
            "deaf-leader",
            "ring",
            "isolate-controller",
            "clients",
            "mute-controller",
            "loss",
        )
    ),
    "zombie": tuple(
        Step(fault=name, hold=6.0, rest=1.5)
        for name in ("isolate-leader", "pause-leader", "mute-leader", "deaf-leader")
    ),
    "zombie-coordinator": (Step(fault="isolate-coordinator", hold=8.0, rest=3.0),),
    "broken-disk": (Step(fault="disk-broken", hold=3.0, rest=4.0),),
    "full-disk": (Step(fault="disk-full", hold=3.0, rest=3.0),),
    "membership": tuple(
        Step(fault=name, hold=2.0, rest=1.0)
        for name in (
            "reassign",
            "voter-leaves",
            "kill-controller",
            "leave",
            "preferred-leaders",
            "reassign",
            "kill-leader",
        )
    ),
    "clocks": tuple(
        Step(fault=name, hold=5.0, rest=2.0)
        for name in (
            "clock-jump-leader",
            "kill-leader",
            "clock-drift",
            "clock-speed-leader",
            "isolate-leader",
            "clock-jump-controller",
            "clock-speed-controller",
            "kill-controller",
            "clock-jump-coordinator",
        )
    ),
    "cables": tuple(
        Step(fault=name, hold=4.0, rest=1.0)
        for name in (
            "late-frames",
            "kill-leader",
            "reordered-frames",
            "isolate-leader",
            "doubled-frames",
            "kill-controller",
        )
    ),
    "syncs": tuple(
        Step(fault=name, hold=4.0, rest=3.0)
        for name in ("sync-error-data", "sync-slow-data", "disk-slow", "sync-error-quorum", "sync-slow-quorum")
    ),
    "slow-ends": (
        Step(fault="slow-power-all", hold=2.0, rest=4.0),
        Step(fault="slow-kill-all", hold=2.0, rest=4.0),
        Step(fault="slow-power-leader", hold=2.0, rest=3.0),
    ),
    "newcomers": tuple(
        Step(fault=name, hold=1.0, rest=2.0)
        for name in (
            "node-joins",
            "kill-leader",
            "node-leaves",
            "node-replaced",
            "isolate-leader",
            "node-joins",
            "power-one",
        )
    ),
    "kafka": (
        Step(fault="isolate-leader", hold=6.0, rest=2.0),
        Step(fault="kill-leader", hold=1.0, rest=8.0),
        Step(fault="pause-follower", hold=4.0, rest=1.0),
        Step(fault="mute-leader", hold=6.0, rest=2.0),
        Step(fault="power-one", hold=1.0, rest=10.0),
    ),
    "mixed": (
        Step(fault="isolate-leader", hold=6.0, rest=1.0),
        Step(fault="kill-leader", hold=1.0, rest=4.0),
        Step(fault="pause-controller", hold=6.0, rest=1.0),
        Step(fault="kill-follower", hold=1.0, rest=4.0),
        Step(fault="kill-controller", hold=1.0, rest=4.0),
    ),
    STEADY: tuple(
        Step(fault=name, hold=1.0, rest=1.0)
        for name in ("kill-controller", "kill-controller", "kill-coordinator", "kill-controller", "kill-leader")
    ),
    "store": tuple(
        Step(fault=name, hold=hold, rest=2.0)
        for name, hold in (
            ("store-out-kill-leader", 3.0),
            ("store-lost-answers-isolate-leader", 4.0),
            ("store-slow-kill-leader", 3.0),
            ("store-cut-answers", 2.0),
            ("store-out-power-one", 2.0),
            ("store-lost-answers-kill-leader", 3.0),
            ("store-errors-halves", 4.0),
            ("store-out-kill-all", 2.0),
        )
    ),
    "kills": tuple(
        Step(fault=name, hold=1.0, rest=2.0)
        for name in ("kill-leader", "kill-controller", "kill-coordinator", "kill-majority", "kill-follower", "kill-all")
    ),
}


REDUCED = frozenset(
    {name for name in FAULTS if name.startswith(("kill-", "pause-"))}
    | {
        "slow-processor",
        "leave",
        "preferred-leaders",
        "reassign",
        "voter-leaves",
        "unreachable-leader",
        "unreachable-controller",
        "store-out",
        "store-errors",
        "store-slow",
        "store-cut-answers",
        "store-lost-answers",
        "store-out-kill-leader",
        "store-slow-kill-leader",
        "store-lost-answers-kill-leader",
        "store-out-kill-all",
    }
)
"""Faults that work without root."""
ONLY_REDUCED = frozenset({"unreachable-leader", "unreachable-controller"})
AIMED = frozenset({"overtaken-leader"})
"""Faults that wait for their target, for up to half a minute. A swarm does not include them."""
MIXED = frozenset(
    {name for name in FAULTS if name.startswith(("isolate-", "mute-", "deaf-", "kill-", "pause-", "unreachable-"))}
    | {"halves", "bridge", "ring", "clients", "loss", "slow-network", "late-frames", "reordered-frames"}
    | {"doubled-frames", "slow-processor", "leave", "preferred-leaders", "reassign", "voter-leaves"}
)
"""Faults of a swarm in a cluster with nodes of Apache Kafka: deaths, pauses, cuts and administration. Disks and clocks
have no faults: a JVM waits by a clock that cannot be changed, and Kafka does not sync all that it writes."""
ROLL = Step(fault="roll", hold=8.0, rest=0.0)
"""This fault lasts longer than those of a swarm, so that another fault meets the node while it starts."""


def swarm(chance: random.Random, flush: bool, reduced: bool, tiered: bool, mixed: bool = False) -> Iterator[Step]:
    """A random subset of the faults, repeated in any order with calm in between, sometimes with none for a while."""
    possible = REDUCED if reduced else set(FAULTS) - ONLY_REDUCED - AIMED - (frozenset() if flush else NEED_FLUSH)
    possible = possible & MIXED if mixed else possible - {ROLL.fault}
    names = sorted(possible if tiered else possible - set(STORE_FAULTS))
    chosen = chance.sample(names, chance.randint(3, 8)) + (["kill-leader"] if mixed else [])
    while True:
        yield Step(fault=chance.choice(chosen), hold=chance.uniform(0.3, 6.0), rest=chance.choice((0.0, 0.3, 1.0, 3.0)))


def needs_preload(plan: str) -> bool:
    """Whether a plan has, or may draw, a fault that needs the preloaded library."""
    return plan == "swarm" or plan in PRELOADED or any(step.fault in PRELOADED for step in NAMED.get(plan, ()))


def steps(
    plan: str,
    chance: random.Random,
    flush: bool,
    reduced: bool = False,
    tiered: bool = False,
    mixed: bool = False,
) -> Iterator[Step]:
    """Repeat the steps of a plan; a fault's own name is a plan too. Raises KeyError for an unknown name."""
    if plan == "swarm":
        yield from swarm(chance, flush, reduced, tiered, mixed)
    if plan not in NAMED and plan not in FAULTS:
        raise KeyError(f"no plan and no fault is called {plan}")
    fixed = NAMED[plan] if plan in NAMED else (Step(fault=plan, hold=4.0, rest=2.0),)
    while fixed:
        yield from fixed
