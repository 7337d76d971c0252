"""Faults that change nodes. A sixth node joins: it registers, catches up, becomes a voter and gets replicas; later it
leaves permanently. One of the five loses its disk and returns as a new node under its id. Each follows what
docs/operations tells an administrator to do, by the protocol alone. It had an effect if the cluster reports it as done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jepsen.db import CLUSTER_ID
from jepsen.nemesis.injection import Context, Injection, NotNow
from jepsen.nemesis.membership import ask, rejoin
from jepsen.node import Node, NodeFailed
from kraft.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.storage.directories.meta_properties import read_meta_properties
from kraft.world.real.files import RealFileSystem

NEW = 6
STEP_SECONDS_MAX = 25.0
PERIOD_SECONDS = 0.3
MOVED = 2
"""Number of partitions that get a replica on the new node."""

Replicas = dict[tuple[str, int], tuple[list[int], list[int]]]


def until(condition: Callable[[], bool]) -> bool:
    """Wait for the condition. Returns whether it came true in time."""
    deadline = time.monotonic() + STEP_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            if condition():
                return True
        except NotNow:
            pass  # Nobody answers at the moment; until the deadline that is no reason to give up.
        time.sleep(PERIOD_SECONDS)
    return False


def metadata(context: Context) -> Any:
    """Return the cluster's metadata. Raises NotNow."""
    return ask(context, MetadataRequest(topics=None, allow_auto_topic_creation=False))


def replicas(context: Context) -> Replicas:
    """Return the replicas and the in-sync set of every partition. Raises NotNow."""
    found = metadata(context)
    return {
        (topic.name, each.partition_index): (list(each.replica_nodes), list(each.isr_nodes))
        for topic in found.topics
        for each in topic.partitions
    }


def move(context: Context, wanted: dict[tuple[str, int], list[int]]) -> None:
    """Reassign partitions to these replicas. Raises NotNow."""
    topics = [
        ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=chosen)])
        for (name, index), chosen in wanted.items()
    ]
    ask(context, AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=topics))


def directory_of(node: Node) -> bytes:
    """The directory id that formatting gave to the node's disk."""
    properties = read_meta_properties(RealFileSystem(), str(node.data))
    if properties is None or properties.directory_id is None:
        raise NodeFailed(f"node {node.number} has no directory.id")
    return properties.directory_id


def registered(context: Context, number: int) -> bool:
    return number in {each.node_id for each in metadata(context).brokers}


def votes(context: Context, node: Node) -> bool:
    """Make the node a voter unless it is one. Returns whether it is; it may have to catch up first."""
    quorum = context.observer.quorum()
    directory = directory_of(node)
    if quorum is not None and any(
        (each.replica_id, each.replica_directory_id) == (node.number, directory) for each in quorum.current_voters
    ):
        return True
    return rejoin(context, node.number, directory)


def let_go(context: Context, number: int) -> bool:
    """Remove the node from the voters. Returns whether it is none. Raises NotNow while that cannot be done."""
    quorum = context.observer.quorum()
    if quorum is None:
        raise NotNow("nobody knows who votes")
    for each in quorum.current_voters:
        if each.replica_id == number:
            answer: Any = ask(
                context,
                RemoveRaftVoterRequest(
                    cluster_id=CLUSTER_ID, voter_id=number, voter_directory_id=each.replica_directory_id
                ),
            )
            if answer.error_code:
                raise NotNow(f"the voter is not let go: {answer.error_message}")
    return True


def join(context: Context) -> Injection:
    """Let a sixth node join."""
    context.switch()
    if NEW in context.cluster.nodes:
        raise NotNow("the sixth node is there already")
    events = sorted(place for place in replicas(context) if place[0] == "events")[:MOVED]
    node = context.cluster.add(NEW)

    def given() -> bool:
        found = replicas(context)
        move(context, {place: [NEW, *[each for each in found[place][0] if each != NEW][:-1]] for place in events})
        return True

    def in_sync() -> bool:
        found = replicas(context)
        return all(NEW in found[place][1] for place in events)

    steps = [until(lambda: registered(context, NEW)), until(lambda: votes(context, node)), until(given), until(in_sync)]
    return Injection(
        kind="node-joins",
        role=f"n{NEW} registered, voter, given replicas, in sync: {steps}",
        busy=frozenset({NEW}),
        end=lambda: all(steps),
    )


def leave_for_good(context: Context) -> Injection:
    """Move the sixth node's replicas elsewhere, remove it from the voters, stop it and unregister it."""
    if NEW not in context.cluster.nodes:
        raise NotNow("there is no sixth node")
    if NEW not in context.free():
        raise NotNow("the sixth node has a fault")
    stay = sorted(set(context.cluster.nodes) - {NEW})

    told: set[tuple[str, int]] = set()

    def emptied() -> bool:
        held = {place: chosen for place, (chosen, _) in replicas(context).items() if NEW in chosen}
        fresh = {place: elsewhere(context, chosen, stay) for place, chosen in held.items() if place not in told}
        if fresh:
            move(context, fresh)
            told.update(fresh)
        return not held

    gone = until(emptied)
    if gone and until(lambda: let_go(context, NEW)):
        context.cluster.nodes[NEW].stop()
        context.cluster.remove(NEW)
        until(lambda: ask(context, UnregisterBrokerRequest(broker_id=NEW)) is not None)
    return Injection(
        kind="node-leaves",
        role=f"n{NEW}",
        busy=frozenset(),
        end=lambda: gone and until(lambda: not registered(context, NEW)),
    )


def elsewhere(context: Context, held: list[int], stay: list[int]) -> list[int]:
    """Choose as many replicas on nodes that stay, with as few moves as possible."""
    kept = [node for node in held if node in stay]
    others = [node for node in stay if node not in kept]
    return [*kept, *context.chance.sample(others, min(len(others), len(held) - len(kept)))]


def replace(context: Context) -> Injection:
    """Destroy a node's disk; a new node joins under its id. Needs a cluster without other faults, and never hits the
    last replica of a partition."""
    if context.busy:
        raise NotNow("there is another fault")
    number = context.pick("any")
    node = context.cluster.nodes[number]
    disk = context.disk(number)
    if any(number in isr and len(isr) < 2 for _, isr in replicas(context).values()):
        raise NotNow("it has the last replica of something")
    node.kill()
    context.recorder.power_loss([number])
    if not until(lambda: let_go(context, number)):
        node.launch()
        raise NotNow("the quorum does not let the voter go")
    disk.renew()
    node.format(CLUSTER_ID, [])
    node.launch()
    steps = [until(lambda: registered(context, number)), until(lambda: votes(context, node))]
    steps.append(until(lambda: all(number in isr for chosen, isr in replicas(context).values() if number in chosen)))
    return Injection(
        kind="node-replaced",
        role=f"n{number} registered, voter, in sync: {steps}",
        busy=frozenset({number}),
        end=lambda: all(steps),
    )
