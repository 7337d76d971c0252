"""Changes of partitions when a broker registers, leaves, or loses a directory.

A broker that leaves is removed from every ISR, and its partitions get new leaders. The change of its registration is
the last record, so replay applies it only after all partitions have moved. Unfencing has the opposite order: first the
registration changes, then the broker is elected for leaderless partitions that it can lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.partition_change_builder import allow_unclean_by_policy, change_of
from kraft.metadata.image.partition_registration import PartitionRegistration
from kraft.metadata.image.topics_image import TopicIdPartition
from kraft.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from kraft.world.steps import Steps

FENCE: Final = 1
UNFENCE: Final = -1
ENTER_CONTROLLED_SHUTDOWN: Final = 1
NO_BROKER: Final = -1

Records = Steps[list[Any]]
"""Records, decided one partition at a time. Yields after each partition."""


def leader_and_isr_updates(
    view: ControllerView,
    keys: Iterable[TopicIdPartition],
    *,
    where: Callable[[PartitionRegistration], bool] = lambda partition: True,
    remove: int = NO_BROKER,
    add: int = NO_BROKER,
    unclean_shutdown: int = NO_BROKER,
) -> Steps[list[PartitionChangeRecord]]:
    """Return changes of ISR and leader for the partitions `keys` that satisfy `where`.

    They are computed as if the broker `remove` could not lead, `add` could lead, and `unclean_shutdown` had lost its
    unflushed records. Yields after each partition.
    """

    def acceptable(broker_id: int) -> bool:
        return broker_id not in (remove, unclean_shutdown) and (broker_id == add or view.is_active(broker_id))

    records = []
    for topic_id, partition_id in keys:
        yield None
        partition = view.image.topics.by_id[topic_id].partitions[partition_id]
        if not where(partition):
            continue
        builder = change_of(view, topic_id, partition_id, partition, acceptable)
        allow_unclean_by_policy(view, topic_id, builder, partition)
        builder.unclean_shutdown_replica = unclean_shutdown
        builder.target_isr = tuple(replica for replica in partition.isr if replica not in (remove, unclean_shutdown))
        record = builder.build()
        if record is not None:
            records.append(record)
    return records


def in_isr_of(
    view: ControllerView, broker_id: int, *, remove: int = NO_BROKER, unclean_shutdown: int = NO_BROKER
) -> Steps[list[PartitionChangeRecord]]:
    """Return the changes for the partitions whose ISR contains the broker."""
    return leader_and_isr_updates(
        view,
        view.image.topics.partitions_on(broker_id),
        where=lambda partition: broker_id in partition.isr,
        remove=remove,
        unclean_shutdown=unclean_shutdown,
    )


def in_elr_of(view: ControllerView, broker_id: int, *, unclean_shutdown: int) -> Steps[list[PartitionChangeRecord]]:
    """Compute the same changes as `in_isr_of`, for the partitions whose ELR contains the broker."""
    return leader_and_isr_updates(
        view,
        view.image.topics.partitions_on(broker_id),
        where=lambda partition: broker_id in partition.elr,
        unclean_shutdown=unclean_shutdown,
    )


def has_leaderships(view: ControllerView, broker_id: int) -> Steps[bool]:
    """Whether the broker leads any partition. Yields after each partition."""
    topics = view.image.topics
    for topic_id, index in topics.partitions_on(broker_id):
        if topics.by_id[topic_id].partitions[index].leader == broker_id:
            return True
        yield None
    return False


def broker_fenced(view: ControllerView, broker_id: int) -> Records:
    """Return the records that fence a registered broker."""
    broker = view.image.cluster.brokers[broker_id]
    changes = yield from in_isr_of(view, broker_id, remove=broker_id)
    records: list[Any] = [*changes]
    records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCE))
    return records


def broker_unfenced(view: ControllerView, broker_id: int, broker_epoch: int) -> Records:
    """Return the records that unfence a broker and elect it for leaderless partitions."""
    records: list[Any] = [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=UNFENCE)
    ]
    yield from view.image.topics.leaderless.sort()
    records += yield from leader_and_isr_updates(view, view.image.topics.leaderless, add=broker_id)
    return records


def broker_in_controlled_shutdown(view: ControllerView, broker_id: int, broker_epoch: int) -> Records:
    """Return the records that move leadership off a broker that wants to stop. Called at every heartbeat until the
    broker leads nothing."""
    records: list[Any] = []
    broker = view.broker(broker_id)
    if broker is not None and not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=broker_epoch, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN
            )
        )
    records += yield from in_isr_of(view, broker_id, remove=broker_id)
    return records


def broker_unregistered(view: ControllerView, broker_id: int, broker_epoch: int) -> Records:
    """Return the records that unregister a broker. It is first removed from every ISR and ELR. Kafka leaves it in the
    ELR, although it can never return as that member."""
    records: list[Any] = yield from _lost_unflushed_records(view, broker_id)
    records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_epoch))
    return records


def _lost_unflushed_records(view: ControllerView, broker_id: int) -> Records:
    changes = yield from in_isr_of(view, broker_id, unclean_shutdown=broker_id)
    more = yield from in_elr_of(view, broker_id, unclean_shutdown=broker_id)
    return [*changes, *more]


def broker_restarted(view: ControllerView, broker_id: int, clean: bool) -> Records:
    """Return the changes to write before a new incarnation registers.

    With ELR on, a broker that did not shut down cleanly may lack acknowledged records, so it leaves ISR and ELR
    (KIP-966).
    """
    if view.elr_enabled and not clean:
        return (yield from _lost_unflushed_records(view, broker_id))
    changes = yield from in_isr_of(view, broker_id, remove=broker_id)
    return [*changes]


def directories_offline(view: ControllerView, broker_id: int, broker_epoch: int, offline: Sequence[bytes]) -> Records:
    """Return the records for log directories that a broker lost. Its replicas there leave ISR and leadership. Its other
    replicas are not affected (KIP-858)."""
    broker = view.image.cluster.brokers[broker_id]
    newly_offline = [directory for directory in broker.directories if directory in offline]
    if not newly_offline:
        return []
    records: list[Any] = []
    for lost in newly_offline:
        records += yield from leader_and_isr_updates(
            view,
            view.image.topics.partitions_on(broker_id),
            where=_lies_in(broker_id, lost),
            remove=broker_id,
        )
    remaining = [directory for directory in broker.directories if directory not in offline]
    records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, log_dirs=remaining))
    return records


def _lies_in(broker_id: int, directory: bytes) -> Callable[[PartitionRegistration], bool]:
    return lambda partition: partition.directory(broker_id) == directory


def directories_cordoned(
    view: ControllerView, broker_id: int, broker_epoch: int, cordoned: Sequence[bytes] | None
) -> list[Any]:
    """Return the record for a changed set of cordoned directories.
    `cordoned` is None if the broker does not report it."""
    if cordoned is None:
        return []
    known = view.image.cluster.brokers[broker_id].cordoned_directories
    if known is not None and set(known) == set(cordoned):
        return []
    return [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, cordoned_log_dirs=list(cordoned))
    ]


def leaderless_after_hold(view: ControllerView) -> Steps[list[PartitionChangeRecord]]:
    """Return elections that waited for the session of a broker fenced early. `view` no longer holds that broker."""
    yield from view.image.topics.leaderless.sort()
    return (yield from leader_and_isr_updates(view, view.image.topics.leaderless))
