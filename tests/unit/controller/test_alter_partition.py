"""AlterPartition: what a leader may propose as its in-sync set, and what not."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.controller.replication_control.alter_partition import alter_partition
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from tests.unit.controller.partition_requests import propose
from tests.unit.controller.pure_cluster import PureCluster


def test_a_leader_shrinks_and_grows_its_isr() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2])
    code, answer = propose(cluster, "t", [1])
    assert code == ErrorCode.NONE
    assert (answer.leader_id, answer.leader_epoch, answer.isr, answer.partition_epoch) == (1, 0, [1], 1)
    code, answer = propose(cluster, "t", [1, 2], version=2)
    assert (code, answer.isr, answer.partition_epoch) == (ErrorCode.NONE, [1, 2], 2)
    code, answer = propose(cluster, "t", [1, 2])
    assert (code, answer.partition_epoch) == (ErrorCode.NONE, 2), "the same ISR changes nothing"


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1], {"leader_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ([1], {"partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ([1], {"leader_epoch": 6}, ErrorCode.FENCED_LEADER_EPOCH),
        ([2], {"sender": 2}, ErrorCode.INVALID_REQUEST),
        ([1], {"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([2], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([1, 9], {}, ErrorCode.INVALID_REQUEST),
        ([1, 2], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ([1, 3], {}, ErrorCode.INELIGIBLE_REPLICA),
        (
            [1],
            {"new_isr_with_epochs": [BrokerState(broker_id=1), BrokerState(broker_id=2, broker_epoch=5)]},
            ErrorCode.INELIGIBLE_REPLICA,
        ),
        ([1], {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_invalid_isr_proposals_are_refused_without_a_change(isr: list[int], fields: dict[str, Any], code: int) -> None:
    cluster = PureCluster(1, 2, 3)
    topic_id = cluster.topic("t", [1, 2, 3])
    for _ in range(7):
        cluster.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=1, isr=[1, 2]))
    cluster.fence(3)
    before = cluster.partition("t")
    assert propose(cluster, "t", isr, **fields)[0] == code
    assert cluster.partition("t") == before


def test_a_broker_with_a_stale_epoch_may_not_propose_an_isr() -> None:
    cluster = PureCluster(1)
    with pytest.raises(ApiError) as refused:
        cluster.apply(
            alter_partition(
                cluster.view, AlterPartitionRequest(broker_id=1, broker_epoch=3), ControllerRequestContext(3)
            )
        )
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_isr_proposals_for_an_unknown_topic_are_answered_per_partition() -> None:
    cluster = PureCluster(1)
    topics = [TopicData(topic_id=b"x" * 16, partitions=[PartitionData(partition_index=3)])]
    request = AlterPartitionRequest(broker_id=1, broker_epoch=cluster.epoch(1), topics=topics)
    answer = cluster.apply(alter_partition(cluster.view, request, ControllerRequestContext(3)))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
