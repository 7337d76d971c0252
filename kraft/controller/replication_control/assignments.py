"""Manual replica assignments, and the registrations of new partitions. Used by CreateTopics, CreatePartitions and
reassignments."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.common.broker_state import DECOMMISSION
from kraft.common.errors import ApiError
from kraft.controller.controller_view import ControllerView
from kraft.controller.replication_control.replica_placer import UsableBroker
from kraft.metadata.image.partition_registration import RECOVERED, PartitionRegistration
from kraft.protocol.error_codes import ErrorCode


def usable_brokers(view: ControllerView) -> list[UsableBroker]:
    """Return the brokers that may receive replicas: not shutting down, not being decommissioned, and with a directory
    that is not cordoned. Fenced brokers are included as a last resort."""
    brokers = [
        broker
        for broker in view.image.cluster.brokers.values()
        if view.image.configs.desired_state(broker.id) != DECOMMISSION
    ]
    return [
        UsableBroker(b.id, b.rack, b.fenced)
        for b in brokers
        if not b.in_controlled_shutdown and b.has_uncordoned_directories
    ]


def check_manual_assignment(view: ControllerView, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Raises ApiError(INVALID_REPLICA_ASSIGNMENT), with Kafka's messages and order of checks."""

    def refuse(problem: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {problem}")

    if not replicas:
        raise refuse("includes an empty replica list.")
    ordered = sorted(replicas)
    for index, broker_id in enumerate(ordered):
        broker = view.broker(broker_id)
        if broker is None:
            raise refuse(f"includes broker {broker_id}, but no such broker is registered.")
        if not broker.has_uncordoned_directories:
            raise refuse(f"includes broker {broker_id}, but all its log directories are cordoned.")
        if index and ordered[index - 1] == broker_id:
            raise refuse(f"includes the broker {broker_id} more than once.")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise refuse(
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            "partitions, "
            f"which have {replication_factor} replica(s)."
        )


def new_partition(view: ControllerView, replicas: tuple[int, ...]) -> PartitionRegistration | None:
    """Return the registration of a new partition. Its leader is the first active replica.
    None if no replica is active."""
    isr = tuple(broker_id for broker_id in replicas if view.is_active(broker_id))
    if not isr:
        return None
    directories = tuple(view.default_directory(broker_id) for broker_id in replicas)
    leader = min(isr, key=view.avoided.__contains__)  # The first that is in service.
    return PartitionRegistration(
        replicas, directories, replicas if isr == replicas else isr, (), (), leader, RECOVERED, 0, 0
    )
