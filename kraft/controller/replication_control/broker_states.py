"""Brokers that an operator takes out of duty: leaders moved off those in maintenance, replicas too off those that
are decommissioned, and some fenced.

There is no task record to lose: what is wanted is a key of the broker (`kraft.common.broker_state`), what is left to
do follows from the image, and whoever is the active controller does the next step. Leaders stay away because
elections prefer every other replica (`PartitionChangeBuilder.avoided`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kraft.admin.reassignment_plan import PlanBroker, replica_counts, substitute
from kraft.common.broker_state import DECOMMISSION, DESIRED_STATE, FENCED
from kraft.common.config.resource_type import ResourceType
from kraft.controller.controller_result import ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.leader_and_isr import broker_fenced, broker_unregistered
from kraft.controller.replication_control.partition_change_builder import change_of
from kraft.controller.replication_control.partition_reassignment import reassignment_to
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.image.topics_image import TopicIdPartition
from kraft.metadata.records.config_record import ConfigRecord
from kraft.world.steps import Steps

STEP_SECONDS: Final = 0.5
"""How often the active controller takes the next step."""
MOVES_AT_ONCE: Final = 50
"""How many partitions a decommissioned broker is left by at a time: the rest wait, so that copying does not take the
whole network."""
RECORDS_PER_STEP_MAX: Final = 1_000


class Draining(NamedTuple):
    """How far the decommissioning of a broker is. It can be unregistered when nothing is left and it has stopped."""

    leaders: int
    replicas: int
    moving: int
    blocked: tuple[TopicIdPartition, ...]
    """Partitions for whose replica there is no other broker."""


def draining(image: MetadataImage, broker_id: int) -> Draining:
    """What is still to be done to empty a broker."""
    held = _partitions_on(image, broker_id)
    waiting = {key: partition for key, partition in held.items() if broker_id not in partition.removing_replicas}
    leaders = sum(partition.leader == broker_id for partition in held.values())
    return Draining(leaders, len(held), len(held) - len(waiting), tuple(_targets(image, waiting, len(waiting))[1]))


class PlannedMove(NamedTuple):
    """A replica that would leave a broker."""

    key: TopicIdPartition
    target: int
    leader: int
    """Whose log is copied; -1 while nobody leads."""


def planned(image: MetadataImage, broker_id: int) -> tuple[list[PlannedMove], list[TopicIdPartition]]:
    """Where the replicas of a broker would go if its decommissioning began, or went on, now; and the partitions that
    would stay, since no other broker is free. Those on their way are left out."""
    held = _partitions_on(image, broker_id)
    waiting = {key: partition for key, partition in held.items() if broker_id not in partition.removing_replicas}
    targets, blocked = _targets(image, waiting, len(waiting), leaving=broker_id)
    moves = []
    for key, target in targets.items():
        arriving = [replica for replica in target if replica not in waiting[key].replicas]
        moves += [PlannedMove(key, replica, waiting[key].leader) for replica in arriving]
    return moves, blocked


def step(view: ControllerView) -> Steps[ControllerResult[bool]]:
    """The next records for all brokers that are out of duty. The answer tells whether another step is due at once.
    Yields after each partition of one that is fenced or goes."""
    records: list[Any] = []
    touched: dict[TopicIdPartition, None] = {}
    if view.avoided:
        for broker_id, broker in view.image.cluster.brokers.items():
            desired = view.image.configs.desired_state(broker_id)
            if desired == FENCED and not broker.fenced:
                records += yield from broker_fenced(view, broker_id)
                return ControllerResult(records, True)  # What comes next has to see it.
            if desired != DECOMMISSION:
                continue
            held = _partitions_on(view.image, broker_id)
            if not held and broker.fenced:
                records += yield from broker_unregistered(view, broker_id, broker.epoch)
                records.append(
                    ConfigRecord(
                        resource_type=ResourceType.BROKER, resource_name=str(broker_id), name=DESIRED_STATE, value=None
                    )
                )
            else:
                records += _moves(view, broker_id, held, touched)
        records += _leaders_away(view, touched, RECORDS_PER_STEP_MAX)
    return ControllerResult(records, len(records) >= RECORDS_PER_STEP_MAX)


class BrokerStates:
    """When a step is worth taking. What there is to do follows from the view alone, so where nothing was found
    nothing is looked for again until it changes: a look costs tens of milliseconds where a broker holds thousands of
    partitions."""

    def __init__(self) -> None:
        self._idle: ControllerView | None = None

    def is_due(self, view: ControllerView) -> bool:
        """Whether a broker is out of duty, and something has changed since nothing was left to do."""
        return bool(view.avoided) and (self._idle is None or not view.is_same_as(self._idle))

    def step(self, view: ControllerView) -> Steps[ControllerResult[bool]]:
        """See `step`."""
        result = yield from step(view)
        self._idle = None if result.records else view
        return result


def _partitions_on(image: MetadataImage, broker_id: int) -> dict[TopicIdPartition, PartitionRegistration]:
    return {key: image.topics.by_id[key[0]].partitions[key[1]] for key in image.topics.partitions_on(broker_id)}


def _targets(
    image: MetadataImage,
    waiting: dict[TopicIdPartition, PartitionRegistration],
    most: int,
    leaving: int | None = None,
) -> tuple[dict[TopicIdPartition, tuple[int, ...]], list[TopicIdPartition]]:
    """Where the first `most` that can move go, and those met that can go nowhere. A replica on a broker that is
    down, but wanted, stays where it is. `leaving` is a broker that is taken for unwanted."""
    wanted = [
        broker
        for broker in image.cluster.brokers.values()
        if image.configs.desired_state(broker.id) != DECOMMISSION and broker.id != leaving
    ]
    ready = {broker.id: broker.is_active and broker.has_uncordoned_directories for broker in wanted}
    able = frozenset(broker_id for broker_id, is_ready in ready.items() if is_ready)
    racks = {broker.id: broker.rack for broker in wanted}
    load = (
        replica_counts(
            partition.replicas for topic in image.topics.by_id.values() for partition in topic.partitions.values()
        )
        if waiting
        else {}
    )
    targets: dict[TopicIdPartition, tuple[int, ...]] = {}
    blocked: list[TopicIdPartition] = []
    for key, partition in waiting.items():
        if len(targets) >= most:
            break
        replicas = _staying(partition)
        if able.issubset(replicas):
            blocked.append(key)
            continue
        allowed = [PlanBroker(broker.id, broker.rack) for broker in wanted if ready[broker.id] or broker.id in replicas]
        target = substitute(replicas, allowed, racks, load)
        if target is None:
            blocked.append(key)
        else:
            targets[key] = target
    return targets, blocked


def _staying(partition: PartitionRegistration) -> tuple[int, ...]:
    return tuple(replica for replica in partition.replicas if replica not in partition.removing_replicas)


def _moves(
    view: ControllerView,
    broker_id: int,
    held: dict[TopicIdPartition, PartitionRegistration],
    touched: dict[TopicIdPartition, None],
) -> Iterator[Any]:
    """Reassignments that begin now. A partition that an operator is moving already has its turn when that is done."""
    moving = sum(broker_id in partition.removing_replicas for partition in held.values())
    waiting = {key: partition for key, partition in held.items() if not partition.is_reassigning and key not in touched}
    for key, target in _targets(view.image, waiting, max(0, MOVES_AT_ONCE - moving))[0].items():
        partition = waiting[key]
        move = reassignment_to(partition.replicas, target)
        builder = change_of(view, *key, partition)
        builder.target_replicas, builder.target_adding, builder.target_removing = move
        record = builder.build()
        if record is not None:
            touched[key] = None
            yield record


def _another_may_lead(view: ControllerView, partition: PartitionRegistration) -> bool:
    """Whether it is worth an election: what nobody else can lead stays, and is looked at in every step."""
    return any(replica not in view.avoided and view.is_active(replica) for replica in partition.isr)


def _leaders_away(view: ControllerView, touched: dict[TopicIdPartition, None], most: int) -> Iterator[Any]:
    """Elections for partitions that a broker out of duty leads, where another can."""
    count = 0
    for broker_id in sorted(view.avoided):
        for key, partition in _partitions_on(view.image, broker_id).items():
            if (
                partition.leader != broker_id
                or key in touched
                or count >= most
                or not _another_may_lead(view, partition)
            ):
                continue
            record = change_of(view, *key, partition).build()
            if record is not None:
                touched[key] = None
                count += 1
                yield record
