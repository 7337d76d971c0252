"""The shape of each verb's JSON."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.outcomes import Kraft


def shape(value: Any) -> Any:
    """Keys and types of a document; of a list the shape of its first element."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


VOTER = {
    "node_id": "int",
    "directory_id": "str",
    "log_end_offset": "int",
    "lag": "int",
    "last_fetch_ms": "int",
    "last_caught_up_ms": "int",
    "endpoints": [{"listener": "str", "host": "str", "port": "int"}],
}


BROKER = {"node_id": "int", "host": "str", "port": "int", "rack": "NoneType", "fenced": "bool"}


GROUP_OFFSET = {
    "topic": "str",
    "partition": "int",
    "committed_offset": "int",
    "begin_offset": "int",
    "end_offset": "int",
    "lag": "int",
    "last_commit_ms": "NoneType",
    "pace": "NoneType",
    "member_id": "NoneType",
    "client_id": "NoneType",
    "host": "NoneType",
}


SHAPES: dict[str, Any] = {
    "topics list": {
        "topics": [
            {
                "name": "str",
                "topic_id": "str",
                "internal": "bool",
                "partition_count": "int",
                "replication_factor": "int",
            }
        ]
    },
    "topics describe shapes": {
        "topics": [
            {
                "name": "str",
                "topic_id": "str",
                "internal": "bool",
                "partition_count": "int",
                "replication_factor": "int",
                "configs": {"retention.ms": "str"},
                "partitions": [
                    {
                        "partition": "int",
                        "leader": "int",
                        "leader_epoch": "int",
                        "replicas": ["int"],
                        "in_sync": ["int"],
                        "offline": [],
                        "begin_offset": "int",
                        "end_offset": "int",
                        "tier": "NoneType",
                    }
                ],
            }
        ]
    },
    "topics create shapes --if-not-exists": {
        "topic": "str",
        "created": "bool",
        "partition_count": "int",
        "replication_factor": "int",
        "dry_run": "bool",
    },
    "topics alter shapes -c retention.ms=-1 --dry-run": {
        "topic": "str",
        "partition_count": "NoneType",
        "replication_factor": "NoneType",
        "configs": {"retention.ms": "str"},
        "dry_run": "bool",
    },
    "topics delete nowhere --if-exists --yes": {"deleted": [], "failed": {}},
    "topics delete-records shapes --before 0 --yes": {
        "topic": "str",
        "partitions": [{"partition": "int", "begin_offset": "int", "error": "NoneType"}],
    },
    "configs describe topic shapes": {
        "resource": {"type": "str", "name": "str"},
        "configs": [
            {
                "name": "str",
                "value": "str",
                "source": "str",
                "type": "str",
                "read_only": "bool",
                "sensitive": "bool",
                "synonyms": [{"name": "str", "value": "str", "source": "str"}],
            }
        ],
    },
    "configs list": {"resources": [{"type": "str", "name": "str"}]},
    "configs set topic shapes retention.ms=-1 --dry-run": {
        "resource": {"type": "str", "name": "str"},
        "changes": [{"name": "str", "operation": "str", "value": "str"}],
        "dry_run": "bool",
    },
    "configs delete cluster log.retention.ms": {
        "resource": {"type": "str", "name": "NoneType"},
        "changes": [{"name": "str", "operation": "str", "value": "NoneType"}],
        "dry_run": "bool",
    },
    "groups list": {"groups": [{"group_id": "str", "state": "str", "type": "str", "protocol_type": "str"}]},
    "groups describe shapes": {
        "groups": [
            {
                "group_id": "str",
                "type": "str",
                "state": "str",
                "epoch": "NoneType",
                "protocol_type": "str",
                "assignor": "str",
                "coordinator": "int",
                "members": [],
                "offsets": [GROUP_OFFSET],
                "total_lag": "int",
                "late_members": [],
            }
        ]
    },
    "groups reset-offsets shapes --to-latest": {
        "group_id": "str",
        "executed": "bool",
        "offsets": [{"topic": "str", "partition": "int", "before": "int", "after": "int"}],
    },
    "groups delete-offsets shapes -t shapes:1 --yes": {"group_id": "str", "deleted": []},
    "transactions list": {"transactions": []},
    "quotas list --client-id shapes": {"quotas": []},
    "quotas set producer_byte_rate=1000 --client-id shapes --dry-run": {
        "entity": {"client-id": "str"},
        "limits": {"producer_byte_rate": "float"},
        "dry_run": "bool",
    },
    "features list": {"features": [{"name": "str", "level": "int", "min_level": "int", "max_level": "int"}]},
    "features upgrade transaction.version=2 --dry-run": {"levels": {"transaction.version": "int"}, "dry_run": "bool"},
    "features downgrade transaction.version=1 --dry-run": {"levels": {"transaction.version": "int"}, "dry_run": "bool"},
    "quorum describe": {
        "cluster_id": "str",
        "leader_id": "int",
        "leader_epoch": "int",
        "high_watermark": "int",
        "voters": [VOTER],
        "observers": [],
    },
    "brokers list": {"cluster_id": "str", "controller_id": "int", "brokers": [BROKER]},
    "brokers describe 1": {
        "broker": {
            **BROKER,
            "leader_count": "int",
            "replica_count": "int",
            "apis": [{"key": "int", "name": "str", "min_version": "int", "max_version": "int"}],
        }
    },
    "brokers log-dirs": {
        "log_dirs": [
            {
                "node_id": "int",
                "path": "str",
                "total_bytes": "int",
                "usable_bytes": "int",
                "size_bytes": "int",
                "is_cordoned": "bool",
                "error": "NoneType",
                "replicas": [{"topic": "str", "partition": "int", "size_bytes": "int", "offset_lag": "int"}],
            }
        ]
    },
    "cluster describe": {
        "cluster_id": "str",
        "controller_id": "int",
        "quorum_leader_id": "int",
        "brokers": [BROKER],
        "topic_count": "int",
        "partition_count": "int",
        "features": {
            "eligible.leader.replicas.version": "int",
            "group.version": "int",
            "share.version": "int",
            "streams.version": "int",
            "kraft.version": "int",
            "metadata.version": "int",
            "transaction.version": "int",
        },
    },
    "cluster health": {
        "is_healthy": "bool",
        "reasons": [],
        "excepted": [],
        "warnings": [],
        "cluster_id": "str",
        "quorum_leader_id": "int",
        "broker_count": "int",
        "fenced_brokers": [],
        "leaderless_partitions": [],
        "under_replicated_partitions": [],
        "under_min_isr_partitions": [],
    },
    "produce shapes": {
        "topic": "str",
        "error": "NoneType",
        "record_count": "int",
        "unacknowledged_count": "int",
        "partitions": [{"partition": "int", "record_count": "int", "first_offset": "int", "last_offset": "int"}],
    },
    "storage random-uuid": {"uuid": "str"},
}


@pytest.mark.parametrize("command", SHAPES)
def test_the_json_of_each_verb_has_its_documented_shape(kraft: Kraft, command: str) -> None:
    kraft("topics", "create", "shapes", "-p", "2", "-c", "retention.ms=100000", "--if-not-exists")
    kraft("groups", "reset-offsets", "shapes", "-t", "shapes:0", "--to-earliest", "--execute")
    outcome = kraft(*command.split(), "-o", "json", lines=b"x\n")
    assert outcome.code == 0, outcome.err
    assert shape(outcome.document) == SHAPES[command]
