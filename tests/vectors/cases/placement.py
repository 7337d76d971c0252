"""ElectLeaders, Alter- and ListPartitionReassignments; AlterPartition and AssignReplicasToDirs as far as a stranger
may ask."""

from typing import Any

from tests.vectors.case import CONTROLLER, Ask, case, create

PREFERRED, UNCLEAN = 0, 1


def elect(*partitions: int, topic: str = "$topic", kind: int = PREFERRED) -> Ask:
    return Ask(
        {
            "election_type": kind,
            "topic_partitions": [{"topic": topic, "partitions": list(partitions)}],
            "timeout_ms": 10000,
        }
    )


def reassign(replicas: list[int] | None, index: int = 0, topic: str = "$topic", **more: Any) -> Ask:
    return Ask(
        {
            "topics": [{"name": topic, "partitions": [{"partition_index": index, "replicas": replicas}]}],
            "timeout_ms": 10000,
            **more,
        }
    )


def list_of(*indexes: int, topic: str = "$topic") -> Ask:
    return Ask({"topics": [{"name": topic, "partition_indexes": list(indexes)}], "timeout_ms": 10000})


def alter(broker: int = 1, epoch: int = 0) -> Ask:
    states = [{"broker_id": 1, "broker_epoch": -1}]
    partition = {
        "partition_index": 0,
        "leader_epoch": 0,
        "new_isr": [1],
        "new_isr_with_epochs": states,
        "partition_epoch": 0,
    }
    return Ask(
        {"broker_id": broker, "broker_epoch": epoch, "topics": [{"topic_id": "$topic.id", "partitions": [partition]}]},
        listener=CONTROLLER,
    )


def assign(broker: int = 1, epoch: int = 0) -> Ask:
    topics = [{"topic_id": "$topic.id", "partitions": [{"partition_index": 0}]}]
    return Ask(
        {"broker_id": broker, "broker_epoch": epoch, "directories": [{"id": b"0123456789abcdef", "topics": topics}]},
        listener=CONTROLLER,
    )


CASES = (
    case("elect-needless", "ElectLeaders", create(), elect(0)),
    case("elect-unclean-needless", "ElectLeaders", create(), elect(0, kind=UNCLEAN), versions=(1, 2)),
    case("elect-unknown-kind", "ElectLeaders", create(), elect(0, kind=9), versions=(1, 2)),
    case("elect-unknown-topic", "ElectLeaders", elect(0)),
    case("elect-unknown-partition", "ElectLeaders", create(), elect(0, 5)),
    case(
        "elect-nothing", "ElectLeaders", Ask({"election_type": PREFERRED, "topic_partitions": [], "timeout_ms": 10000})
    ),
    case(
        "elect-everything",
        "ElectLeaders",
        Ask(
            {"election_type": PREFERRED, "topic_partitions": None, "timeout_ms": 10000},
            mask=("replica_election_results",),
        ),
    ),
    case("elect-at-controller", "ElectLeaders", create(), Ask(elect(0).body, listener=CONTROLLER)),
    case("reassign-to-same", "AlterPartitionReassignments", create(), reassign([1])),
    case("reassign-to-unknown-broker", "AlterPartitionReassignments", create(), reassign([9])),
    case("reassign-to-two", "AlterPartitionReassignments", create(), reassign([1, 9])),
    case(
        "reassign-to-two-fixed",
        "AlterPartitionReassignments",
        create(),
        reassign([1, 9], allow_replication_factor_change=False),
        versions=(1, 1),
    ),
    case("reassign-to-nobody", "AlterPartitionReassignments", create(), reassign([])),
    case("reassign-to-one-twice", "AlterPartitionReassignments", create(), reassign([1, 1])),
    case("reassign-to-negative", "AlterPartitionReassignments", create(), reassign([-1])),
    case("reassign-cancel-nothing", "AlterPartitionReassignments", create(), reassign(None)),
    case("reassign-unknown-topic", "AlterPartitionReassignments", reassign([1])),
    case("reassign-unknown-partition", "AlterPartitionReassignments", create(), reassign([1], index=7)),
    case("reassign-nothing", "AlterPartitionReassignments", Ask({"topics": [], "timeout_ms": 10000})),
    case("list-reassignments", "ListPartitionReassignments", Ask({"topics": None, "timeout_ms": 10000})),
    case("list-reassignments-of-topic", "ListPartitionReassignments", create(), list_of(0)),
    case("list-reassignments-of-unknown", "ListPartitionReassignments", list_of(0)),
    case("list-reassignments-of-nothing", "ListPartitionReassignments", Ask({"topics": [], "timeout_ms": 10000})),
    case("in-sync-stale-epoch", "AlterPartition", create(), alter()),
    case("in-sync-unknown-broker", "AlterPartition", create(), alter(broker=7)),
    case("directories-stale-epoch", "AssignReplicasToDirs", create(), assign()),
    case("directories-unknown-broker", "AssignReplicasToDirs", create(), assign(broker=7)),
)
