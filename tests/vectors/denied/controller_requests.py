"""What is asked at a controller's door: what both doors serve, and what only brokers and voters ask of each other.

The latter are of a broker, or for a cluster, that is not there: those who may ask change nothing.
"""

from __future__ import annotations

from typing import Any, Final

from kraft.handlers.all_handlers import controller_registry
from kraft.protocol.api_keys import ApiKey
from tests.vectors.denied.broker_requests import HIDDEN, OTHER_CLUSTER, Body, requests
from tests.vectors.plain import message_class

LOG: Final = "__cluster_metadata"
ABSENT: Final = 99
"""A node that is not there."""
CONTROLLERS: Final = 2
ONLY_ADVERTISED_BY_KAFKA: Final = frozenset((ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS))
"""Apache Kafka's controllers answer these to nobody. Rights for ours are in test_describing_at_controllers.py."""


def controller_requests(ids: dict[str, bytes]) -> list[tuple[str, str, Body]]:
    """As `requests`, at a controller's door."""
    served = {each.key for each in controller_registry().handlers()} - ONLY_ADVERTISED_BY_KAFKA
    own = _quorum() + _of_brokers(ids)
    own_apis = {api for _, api, _ in own} - {"Fetch"}
    shared = [
        (name, api, body)
        for name, api, body in requests(ids)
        if message_class(f"{api}Request").API_KEY in served and api not in own_apis
    ]
    return shared + own


def _quorum() -> list[tuple[str, str, Body]]:
    def topics(**fields: Any) -> list[Body]:
        return [{"topic_name": LOG, "partitions": [{"partition_index": 0, **fields}]}]

    return [
        (
            "of the log",
            "Vote",
            {
                "cluster_id": OTHER_CLUSTER,
                "voter_id": 1,
                "topics": topics(replica_epoch=0, replica_id=ABSENT, last_offset_epoch=0, last_offset=0),
            },
        ),
        (
            "of the log",
            "BeginQuorumEpoch",
            {"cluster_id": OTHER_CLUSTER, "voter_id": 1, "topics": topics(leader_id=ABSENT, leader_epoch=0)},
        ),
        (
            "of the log",
            "EndQuorumEpoch",
            {"cluster_id": OTHER_CLUSTER, "topics": topics(leader_id=ABSENT, leader_epoch=0)},
        ),
        (
            "of another cluster",
            "Fetch",
            {
                "cluster_id": OTHER_CLUSTER,
                "max_wait_ms": 0,
                "topics": [{"topic": LOG, "topic_id": bytes(15) + b"\x01", "partitions": [{"partition": 0}]}],
            },
        ),
        (
            "of the log",
            "FetchSnapshot",
            {
                "cluster_id": OTHER_CLUSTER,
                "topics": [
                    {
                        "name": LOG,
                        "partitions": [
                            {
                                "partition": 0,
                                "current_leader_epoch": 0,
                                "snapshot_id": {"end_offset": 0, "epoch": 0},
                                "position": 0,
                            }
                        ],
                    }
                ],
            },
        ),
        (
            "one",
            "UpdateRaftVoter",
            {
                "cluster_id": OTHER_CLUSTER,
                "current_leader_epoch": 0,
                "voter_id": ABSENT,
                "voter_directory_id": bytes(15) + b"\x09",
                "listeners": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}],
                "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
            },
        ),
    ]


def _of_brokers(ids: dict[str, bytes]) -> list[tuple[str, str, Body]]:
    broker = {"broker_id": ABSENT, "broker_epoch": 1}
    return [
        (
            "of controllers",
            "DescribeCluster",
            {"endpoint_type": CONTROLLERS, "include_cluster_authorized_operations": True},
        ),
        (
            "shrunk",
            "AlterPartition",
            {
                **broker,
                "topics": [
                    {
                        "topic_id": ids[HIDDEN],
                        "partitions": [{"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0}],
                    }
                ],
            },
        ),
        ("empty", "Envelope", {"request_data": b"", "request_principal": b"", "client_host_address": b"\x7f\0\0\1"}),
        (
            "of another cluster",
            "BrokerRegistration",
            {"broker_id": ABSENT, "cluster_id": OTHER_CLUSTER, "incarnation_id": bytes(15) + b"\x09", "rack": None},
        ),
        ("one", "BrokerHeartbeat", {**broker, "current_metadata_offset": 0}),
        ("some", "AllocateProducerIds", broker),
        ("one", "ControllerRegistration", {"controller_id": ABSENT, "incarnation_id": bytes(15) + b"\x09"}),
        (
            "one",
            "AssignReplicasToDirs",
            {
                **broker,
                "directories": [
                    {
                        "id": bytes(15) + b"\x09",
                        "topics": [{"topic_id": ids[HIDDEN], "partitions": [{"partition_index": 0}]}],
                    }
                ],
            },
        ),
    ]
