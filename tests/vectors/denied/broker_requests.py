"""Requests of a client that may do little, by API: each names something that it may not see or use. None changes
anything that the answer to another depends on, unless `CHANGES` says so."""

from __future__ import annotations

from typing import Any, Final

from tests.vectors.plain import Batch

HIDDEN, SHOWN, NOWHERE = "hidden", "shown", "nowhere"
HIDDEN_GROUP, SHOWN_GROUP = "hidden-group", "shown-group"
TOPICS: Final = (HIDDEN, SHOWN, NOWHERE)
OTHER_CLUSTER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
UNKNOWN_TOKEN = b"x" * 64

Body = dict[str, Any]
VOTERS: Final[tuple[tuple[str, str, Body], ...]] = (
    (
        "one",
        "AddRaftVoter",
        {
            "cluster_id": OTHER_CLUSTER,
            "timeout_ms": 1000,
            "voter_id": 99,
            "voter_directory_id": bytes(15) + b"\x09",
            "listeners": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}],
        },
    ),
    (
        "one",
        "RemoveRaftVoter",
        {"cluster_id": OTHER_CLUSTER, "voter_id": 99, "voter_directory_id": bytes(15) + b"\x09"},
    ),
)


def requests(ids: dict[str, bytes]) -> list[tuple[str, str, Body]]:
    """Name, API and body of each. `ids` are those of the topics."""
    named = [{"name": name, "topic_id": bytes(16)} for name in TOPICS]
    by_id = [{"name": None, "topic_id": ids[name]} for name in (HIDDEN, SHOWN)]
    groups = (HIDDEN_GROUP, SHOWN_GROUP)
    return [
        ("by name", "Metadata", {"topics": named, "allow_auto_topic_creation": False}),
        ("to be made", "Metadata", {"topics": [{"name": "made", "topic_id": bytes(16)}]}),
        ("by id", "Metadata", {"topics": by_id}),
        ("all", "Metadata", {"topics": None}),
        ("operations", "Metadata", {"topics": named[1:2], "include_topic_authorized_operations": True}),
        ("some", "DescribeTopicPartitions", {"topics": [{"name": name} for name in TOPICS]}),
        (
            "of somebody else",
            "CreateDelegationToken",
            {
                "owner_principal_type": "User",
                "owner_principal_name": "somebody",
                "renewers": [{"principal_type": "Group", "principal_name": "no user"}],
                "max_lifetime_ms": -1,
            },
        ),
        ("unknown", "RenewDelegationToken", {"hmac": UNKNOWN_TOKEN, "renew_period_ms": 1000}),
        ("unknown", "ExpireDelegationToken", {"hmac": UNKNOWN_TOKEN, "expiry_time_period_ms": -1}),
        ("all", "DescribeDelegationToken", {"owners": None}),
        ("of the cluster", "DescribeCluster", {"include_cluster_authorized_operations": True}),
        (
            "written",
            "Produce",
            {
                "acks": -1,
                "timeout_ms": 5000,
                "topic_data": [
                    {
                        "name": name,
                        "topic_id": ids.get(name, bytes(16)),
                        "partition_data": [{"index": 0, "records": Batch(b"v")}],
                    }
                    for name in (HIDDEN, SHOWN)
                ],
            },
        ),
        (
            "in a transaction",
            "Produce",
            {
                "transactional_id": "hidden-id",
                "acks": -1,
                "timeout_ms": 5000,
                "topic_data": [
                    {
                        "name": SHOWN,
                        "topic_id": ids[SHOWN],
                        "partition_data": [
                            {
                                "index": 0,
                                "records": Batch(
                                    b"v", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
                                ),
                            }
                        ],
                    }
                ],
            },
        ),
        (
            "read",
            "Fetch",
            {
                "replica_id": -1,
                "max_wait_ms": 0,
                "topics": [
                    {
                        "topic": name,
                        "topic_id": ids.get(name, bytes(16)),
                        "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
                    }
                    for name in (HIDDEN, SHOWN)
                ],
            },
        ),
        (
            "looked up",
            "ListOffsets",
            {
                "replica_id": -1,
                "topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in TOPICS],
            },
        ),
        (
            "epochs",
            "OffsetForLeaderEpoch",
            {
                "replica_id": -1,
                "topics": [{"topic": n, "partitions": [{"partition": 0, "leader_epoch": 0}]} for n in TOPICS],
            },
        ),
        (
            "cut",
            "DeleteRecords",
            {"topics": [{"name": n, "partitions": [{"partition_index": 0, "offset": 0}]} for n in TOPICS]},
        ),
        (
            "made",
            "CreateTopics",
            {
                "topics": [{"name": n, "num_partitions": 1, "replication_factor": 1} for n in ("made", SHOWN)],
                "validate_only": True,
            },
        ),
        (
            "by name",
            "DeleteTopics",
            {"timeout_ms": 5000, "topic_names": [HIDDEN, NOWHERE], "topics": [{"name": n} for n in (HIDDEN, NOWHERE)]},
        ),
        (
            "by id",
            "DeleteTopics",
            {"timeout_ms": 5000, "topic_names": [NOWHERE], "topics": [{"name": None, "topic_id": ids[HIDDEN]}]},
        ),
        (
            "grown",
            "CreatePartitions",
            {
                "topics": [{"name": n, "count": 2} for n in (HIDDEN, NOWHERE)],
                "timeout_ms": 5000,
                "validate_only": True,
            },
        ),
        *[("of a group", "FindCoordinator", {"key": g, "key_type": 0, "coordinator_keys": [g]}) for g in groups],
        ("of a transaction", "FindCoordinator", {"key": "hidden-id", "key_type": 1, "coordinator_keys": ["hidden-id"]}),
        ("of both", "DescribeGroups", {"groups": list(groups), "include_authorized_operations": True}),
        ("of both", "ConsumerGroupDescribe", {"group_ids": list(groups), "include_authorized_operations": True}),
        ("all", "ListGroups", {}),
        *[
            (
                f"of {g}",
                "OffsetFetch",
                {
                    "group_id": g,
                    "topics": [{"name": n, "partition_indexes": [0]} for n in TOPICS],
                    "groups": [
                        {
                            "group_id": g,
                            "topics": [
                                {"name": n, "topic_id": ids.get(n, bytes(16)), "partition_indexes": [0]} for n in TOPICS
                            ],
                        }
                    ],
                },
            )
            for g in groups
        ],
        *[
            (f"all of {g}", "OffsetFetch", {"group_id": g, "topics": None, "groups": [{"group_id": g, "topics": None}]})
            for g in groups
        ],
        *[
            (
                f"of {g}",
                "OffsetCommit",
                {
                    "group_id": g,
                    "generation_id_or_member_epoch": -1,
                    "topics": [
                        {
                            "name": n,
                            "topic_id": ids.get(n, bytes(16)),
                            "partitions": [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}],
                        }
                        for n in (HIDDEN, SHOWN)
                    ],
                },
            )
            for g in groups
        ],
        *[
            (
                f"of {g}",
                "OffsetDelete",
                {"group_id": g, "topics": [{"name": n, "partitions": [{"partition_index": 0}]} for n in TOPICS]},
            )
            for g in groups
        ],
        ("both", "DeleteGroups", {"groups_names": [HIDDEN_GROUP, "no-group"]}),
        (
            "joined",
            "JoinGroup",
            {
                "group_id": HIDDEN_GROUP,
                "session_timeout_ms": 1,
                "rebalance_timeout_ms": 10_000,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
        ),
        (
            "synced",
            "SyncGroup",
            {
                "group_id": HIDDEN_GROUP,
                "generation_id": 1,
                "member_id": "m",
                "protocol_type": "consumer",
                "protocol_name": "range",
            },
        ),
        ("beats", "Heartbeat", {"group_id": HIDDEN_GROUP, "generation_id": 1, "member_id": "m"}),
        ("left", "LeaveGroup", {"group_id": HIDDEN_GROUP, "member_id": "m", "members": [{"member_id": "m"}]}),
        *[
            (
                f"joins {g}",
                "ConsumerGroupHeartbeat",
                {
                    "group_id": g,
                    "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
                    "member_epoch": 0,
                    "rebalance_timeout_ms": 10_000,
                    "subscribed_topic_names": [HIDDEN],
                    "topic_partitions": [],
                },
            )
            for g in groups
        ],
        ("of an id", "InitProducerId", {"transactional_id": "hidden-id", "transaction_timeout_ms": 1000}),
        ("without an id", "InitProducerId", {"transactional_id": None, "transaction_timeout_ms": 1000}),
        (
            "topics",
            "AddPartitionsToTxn",
            {
                "v3_and_below_transactional_id": "hidden-id",
                "v3_and_below_producer_id": 1,
                "v3_and_below_producer_epoch": 0,
                "v3_and_below_topics": [{"name": HIDDEN, "partitions": [0]}],
                "transactions": [
                    {
                        "transactional_id": "hidden-id",
                        "producer_id": 1,
                        "producer_epoch": 0,
                        "verify_only": False,
                        "topics": [{"name": HIDDEN, "partitions": [0]}],
                    }
                ],
            },
        ),
        (
            "offsets",
            "AddOffsetsToTxn",
            {"transactional_id": "hidden-id", "producer_id": 1, "producer_epoch": 0, "group_id": HIDDEN_GROUP},
        ),
        (
            "ended",
            "EndTxn",
            {"transactional_id": "hidden-id", "producer_id": 1, "producer_epoch": 0, "committed": True},
        ),
        (
            "offsets",
            "TxnOffsetCommit",
            {
                "transactional_id": "hidden-id",
                "group_id": HIDDEN_GROUP,
                "producer_id": 1,
                "producer_epoch": 0,
                "generation_id_or_member_epoch": -1,
                "topics": [
                    {
                        "name": n,
                        "topic_id": ids[n],
                        "partitions": [{"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}],
                    }
                    for n in (HIDDEN, SHOWN)
                ],
            },
        ),
        ("one", "DescribeTransactions", {"transactional_ids": ["hidden-id", "shown-id"]}),
        ("all", "ListTransactions", {}),
        ("of topics", "DescribeProducers", {"topics": [{"name": n, "partition_indexes": [0]} for n in TOPICS]}),
        (
            "of all kinds",
            "DescribeConfigs",
            {
                "resources": [
                    {"resource_type": kind, "resource_name": name, "configuration_keys": ["x"]}
                    for kind, name in ((2, HIDDEN), (4, "1"), (32, HIDDEN_GROUP), (8, "1"))
                ]
            },
        ),
        *[
            (
                "of a topic and a broker",
                api,
                {
                    "resources": [
                        {
                            "resource_type": kind,
                            "resource_name": name,
                            "configs": [{"name": key, **operation, "value": "1000"}],
                        }
                        for kind, name, key in ((2, HIDDEN, "retention.ms"), (4, "1", "log.cleaner.backoff.ms"))
                    ],
                    "validate_only": True,
                },
            )
            for api, operation in (("AlterConfigs", {}), ("IncrementalAlterConfigs", {"config_operation": 0}))
        ],
        ("all", "ListConfigResources", {}),
        ("all", "DescribeLogDirs", {"topics": None}),
        (
            "moved",
            "AlterReplicaLogDirs",
            {"dirs": [{"path": "/nowhere", "topics": [{"name": HIDDEN, "partitions": [0]}]}]},
        ),
        (
            "all",
            "DescribeAcls",
            {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1},
        ),
        (
            "one",
            "CreateAcls",
            {
                "creations": [
                    {
                        "resource_type": 2,
                        "resource_name": HIDDEN,
                        "resource_pattern_type": 3,
                        "principal": "User:x",
                        "host": "*",
                        "operation": 3,
                        "permission_type": 3,
                    }
                ]
            },
        ),
        (
            "one",
            "DeleteAcls",
            {
                "filters": [
                    {
                        "resource_type_filter": 2,
                        "resource_name_filter": HIDDEN,
                        "pattern_type_filter": 3,
                        "operation": 1,
                        "permission_type": 1,
                    }
                ]
            },
        ),
        ("named", "DescribeUserScramCredentials", {"users": [{"name": "x"}, {"name": "y"}]}),
        ("all", "DescribeUserScramCredentials", {"users": None}),
        ("removed", "AlterUserScramCredentials", {"deletions": [{"name": "x", "mechanism": 1}], "upsertions": []}),
        ("all", "DescribeClientQuotas", {"components": [], "strict": False}),
        (
            "set",
            "AlterClientQuotas",
            {
                "entries": [
                    {
                        "entity": [{"entity_type": "user", "entity_name": "x"}],
                        "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
                    }
                ],
                "validate_only": True,
            },
        ),
        (
            "moved",
            "AlterPartitionReassignments",
            {"topics": [{"name": HIDDEN, "partitions": [{"partition_index": 0, "replicas": [1]}]}]},
        ),
        ("all", "ListPartitionReassignments", {"topics": None}),
        ("one", "ListPartitionReassignments", {"topics": [{"name": HIDDEN, "partition_indexes": [0]}]}),
        ("one", "ElectLeaders", {"election_type": 0, "topic_partitions": [{"topic": HIDDEN, "partitions": [0]}]}),
        ("all", "ElectLeaders", {"election_type": 0, "topic_partitions": None}),
        (
            "raised",
            "UpdateFeatures",
            {"feature_updates": [{"feature": "x", "max_version_level": 1, "upgrade_type": 1}], "validate_only": True},
        ),
        ("one", "UnregisterBroker", {"broker_id": 99}),
        ("one", "UnregisterController", {"controller_id": 99}),
        *VOTERS,
        (
            "of the log",
            "DescribeQuorum",
            {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        ),
        (
            "one",
            "WriteTxnMarkers",
            {
                "markers": [
                    {
                        "producer_id": 1,
                        "producer_epoch": 0,
                        "transaction_result": True,
                        "coordinator_epoch": 0,
                        "topics": [{"name": NOWHERE, "partition_indexes": [0]}],
                    }
                ]
            },
        ),
    ]
