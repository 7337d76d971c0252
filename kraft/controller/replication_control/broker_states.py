"""Brokers that an operator takes out of service: maintenance, decommissioning, fencing.

Leaders move off brokers in maintenance. Leaders and replicas move off brokers that are decommissioned. Other brokers
are fenced.

There is no task record that could be lost. The wanted state is a config key of the broker
(`kraft.common.broker_state`), the remaining work follows from the image, and the active controller of the moment does
the next step. Leaders do not return, because elections prefer every other replica (`PartitionChangeBuilder.avoided`).
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
"""Seconds between two steps."""
MOVES_AT_ONCE: Final = 50
"""Limit of partitions that move off a decommissioned broker at a time, so that copying does not fill the network."""
RECORDS_PER_STEP_MAX: Final = 1_000


class Draining(NamedTuple):
    """The progress of a broker's decommissioning. The broker can be unregistered when nothing is left and it has
    stopped."""

    leaders: int
    replicas: int
    moving: int
    blocked: tuple[TopicIdPartition, ...]
    """Partitions whose replica no other broker can take."""


def draining(image: MetadataImage, broker_id: int) -> Draining:
    """Return the remaining work to empty a broker."""
    held = _partitions_on(image, broker_id)
    waiting = {key: partition for key, partition in held.items() if broker_id not in partition.removing_replicas}
    leaders = sum(partition.leader == broker_id for partition in held.values())
    return Draining(leaders, len(held), len(held) - len(waiting), tuple(_targets(image, waiting, len(waiting))[1]))


class PlannedMove(NamedTuple):
    """A replica that would be moved off a broker."""

    key: TopicIdPartition
    target: int
    leader: int
    """The broker whose log is copied; -1 without a leader."""


def planned(image: MetadataImage, broker_id: int) -> tuple[list[PlannedMove], list[TopicIdPartition]]:
    """Return the moves of a broker's replicas if its decommissioning started or continued now, and the partitions that
    would stay because no other broker is free. Moves in progress are left out."""
    held = _partitions_on(image, broker_id)
    waiting = {key: partition for key, partition in held.items() if broker_id not in partition.removing_replicas}
    targets, blocked = _targets(image, waiting, len(waiting), leaving=broker_id)
    moves = []
    for key, target in targets.items():
        arriving = [replica for replica in target if replica not in waiting[key].replicas]
        moves += [PlannedMove(key, replica, waiting[key].leader) for replica in arriving]
    return moves, blocked


def step(view: ControllerView) -> Steps[ControllerResult[bool]]:
    """Return the next records for all brokers that are out of service. The response is True if another step is due
    immediately. Yields after each partition of a broker that is fenced or unregistered."""
    records: list[Any] = []
    touched: dict[TopicIdPartition, None] = {}
    if view.avoided:
        for broker_id, broker in view.image.cluster.brokers.items():
            desired = view.image.configs.desired_state(broker_id)
            if desired == FENCED and not broker.fenced:
                records += yield from broker_fenced(view, broker_id)
                return ControllerResult(records, True)  # The next decision must see the fenced broker.
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
    """Decides when a step is due. The work follows from the view alone. So if a step found nothing, the next one is due
    only when the view changes: a step costs tens of milliseconds if a broker has thousands of partitions."""

    def __init__(self) -> None:
        self._idle: ControllerView | None = None

    def is_due(self, view: ControllerView) -> bool:
        """Whether a broker is out of service, and the view has changed since a step found nothing to do."""
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
    """Return the targets of the first `most` partitions that can move, and the partitions that have no target.

    A replica on a broker that is down but still in service stays where it is. `leaving` is a broker treated as
    decommissioned.
    """
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
    """Return the records that start reassignments now. A partition that an operator is reassigning waits until that is
    complete."""
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
    """Whether another in-sync replica can lead. Without one an election would change nothing, and it would be tried in
    every step."""
    return any(replica not in view.avoided and view.is_active(replica) for replica in partition.isr)


def _leaders_away(view: ControllerView, touched: dict[TopicIdPartition, None], most: int) -> Iterator[Any]:
    """Return elections for partitions led by a broker out of service, if another replica can lead."""
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
