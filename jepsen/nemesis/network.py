"""Faults of the network: partitions of every shape, lost frames, a slow network, bad cables. A cut had an effect if the
switch dropped frames for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jepsen.nemesis.injection import NETWORK, Context, Injection, grown
from jepsen.network import CLIENTS, Pair
from jepsen.wire import Quality


def between(some: Sequence[int], others: Sequence[int]) -> list[Pair]:
    """All pairs between the two groups, both ways."""
    return [pair for a in some for b in others if a != b for pair in ((a, b), (b, a))]


def cut(context: Context, kind: str, role: str, pairs: Sequence[Pair]) -> Injection:
    network = context.switch()
    chosen = sorted(set(pairs))
    network.cut(chosen)

    def end() -> bool:
        dropped = network.dropped(chosen)
        network.heal(chosen)
        return dropped > 0

    return Injection(kind=kind, role=role, busy=frozenset({NETWORK}), end=end)


def isolate(role: str, clients: bool = False) -> Callable[[Context], Injection]:
    """Cut one node off from all others, and from clients with `clients`."""

    def begin(context: Context) -> Injection:
        context.need_network()
        node = context.pick(role)
        others = [each for each in context.cluster.nodes if each != node] + ([CLIENTS] if clients else [])
        return cut(context, "isolate", f"{role} n{node}", between([node], others))

    return begin


def halves(context: Context) -> Injection:
    """Cut the nodes into two and three; the clients reach all."""
    context.need_network()
    nodes = sorted(context.cluster.nodes)
    context.chance.shuffle(nodes)
    some, others = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    return cut(context, "halves", f"{sorted(some)} from {sorted(others)}", between(some, others))


def bridge(context: Context) -> Injection:
    """Cut two groups from each other; only one node in the middle reaches both."""
    context.need_network()
    nodes = sorted(context.cluster.nodes)
    context.chance.shuffle(nodes)
    middle, rest = nodes[0], nodes[1:]
    some, others = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    return cut(context, "bridge", f"{sorted(some)} from {sorted(others)}, n{middle} between", between(some, others))


def ring(context: Context) -> Injection:
    """Let each node reach only its neighbours on a ring: every node sees a majority, and no two the same one."""
    context.need_network()
    nodes = sorted(context.cluster.nodes)
    context.chance.shuffle(nodes)
    count = len(nodes)
    pairs = [
        (a, b)
        for i, a in enumerate(nodes)
        for j, b in enumerate(nodes)
        if a != b and min((i - j) % count, (j - i) % count) > 1
    ]
    return cut(context, "ring", f"{nodes}", pairs)


def one_way(role: str, outgoing: bool) -> Callable[[Context], Injection]:
    """Drop what a node sends to other nodes, or what they send to it. Clients are not affected."""

    def begin(context: Context) -> Injection:
        context.need_network()
        node = context.pick(role)
        others = [each for each in context.cluster.nodes if each != node]
        pairs = [(node, each) if outgoing else (each, node) for each in others]
        return cut(context, "mute" if outgoing else "deaf", f"{role} n{node}", pairs)

    return begin


def link(context: Context) -> Injection:
    """Cut one direction of one link, from the active controller to a leader if they are two nodes."""
    context.need_network()
    source, target = context.chance.sample(sorted(context.cluster.nodes), 2)
    return cut(context, "link", f"n{source} to n{target}", [(source, target)])


def clients_only(context: Context) -> Injection:
    """Cut a leader off from clients alone, so that the cluster has no reason to depose it."""
    context.need_network()
    node = context.pick("leader")
    return cut(context, "clients", f"leader n{node}", between([node], [CLIENTS]))


def loss(context: Context) -> Injection:
    """Lose a share of the frames between two nodes and all others."""
    context.need_network()
    network = context.switch()
    chosen = sorted(
        set(between(context.chance.sample(sorted(context.cluster.nodes), 2), [*context.cluster.nodes, CLIENTS]))
    )
    lost = grown(network.lost)
    network.lose(chosen)

    def end() -> bool:
        network.lose_no_more(chosen)
        return lost()

    return Injection(kind="loss", role="", busy=frozenset({NETWORK}), end=end)


def slow(context: Context) -> Injection:
    """Limit the rate of what one node sends: queues form and responses are late."""
    node = context.pick("leader")
    network = context.switch()
    network.throttle(node, 256)
    return Injection(
        kind="slow-network",
        role=f"leader n{node}",
        busy=frozenset({node}),
        end=lambda: network.throttle_no_more(node) > 0,
    )


def cable(kind: str, quality: Quality) -> Callable[[Context], Injection]:
    """Make one node's frames, in both directions, late, out of order or duplicated. It had an effect if the cable
    counted such frames."""

    def begin(context: Context) -> Injection:
        number = context.pick("leader")
        network = context.switch()
        network.degrade(number, quality, context.chance.randrange(1 << 30))

        def end() -> bool:
            counts = network.degrade_no_more(number)
            return (
                counts.late > 0
                and (not quality.twice or counts.twice > 0)
                and (not quality.overtaken or counts.overtaken > 0)
            )

        return Injection(kind=kind, role=f"leader n{number}", busy=frozenset({number}), end=end)

    return begin
