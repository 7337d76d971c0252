"""A node changes its program: Apache Kafka takes over the disk, the address and the node id of kraft, or kraft those of
Apache Kafka. The properties file stays as it is.

It had an effect if the other program serves clients, which it does once the cluster has let it in.
"""

from __future__ import annotations

from jepsen.nemesis.injection import Context, Injection, NotHere, NotNow
from jepsen.node import NodeFailed

KILLED_CHANCE = 0.5


def roll(context: Context) -> Injection:
    """Stop or kill one node and start the other program in its place. Which of the two programs gives way is drawn
    first, so that both directions are equally likely."""
    other, nodes = context.cluster.target.other, context.cluster.nodes
    if all(other(node.program) is None for node in nodes.values()):
        raise NotHere("all nodes run the same program, and there is no other")
    free = context.free()
    names = sorted({nodes[number].program.name for number in free})
    if not names:
        raise NotNow("no node is free")
    name = context.chance.choice(names)
    number = context.chance.choice([each for each in free if nodes[each].program.name == name])
    killed = context.chance.random() < KILLED_CHANCE
    node, code = nodes[number], 0
    successor = other(node.program)
    assert successor is not None
    if killed:
        node.kill()
    else:
        node.await_ready()
        code = node.stop()
    node.program = successor
    node.launch()

    def end() -> bool:
        try:
            node.await_ready()
        except NodeFailed:
            return False  # Healing tells of a node that does not serve, or ended.
        return code in (0, 143)

    how = "killed" if killed else "stopped"
    return Injection(
        kind="roll", role=f"n{number} {how}, {name} to {successor.name}", busy=frozenset({number}), end=end
    )
