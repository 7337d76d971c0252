"""What the HTTP admin tells of consumer groups of the new protocol, while partitions are on their way."""

from __future__ import annotations

from typing import Any

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kraft.protocol.messages.describe_groups_response import DescribedGroup as ClassicGroup
from kraft.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from tests.unit.api.edge_app import CLUSTER, Port
from tests.unit.api.failing_node import asked

HERE = f"/v3/clusters/{CLUSTER}/consumer-groups/g"


def assignment(*partitions: int) -> Assignment:
    return Assignment(topic_partitions=[TopicPartitions(topic_name="t", partitions=list(partitions))])


class Moving(Port):
    """`old`, a classic member, has yet to give partition 1 to `new`."""

    async def call(self, api_key: int, *arguments: Any, **named: Any) -> Any:
        members = [
            Member(
                member_id="old",
                member_epoch=4,
                subscribed_topic_names=["t"],
                assignment=assignment(0, 1),
                target_assignment=assignment(0),
                member_type=0,
            ),
            Member(
                member_id="new",
                member_epoch=5,
                subscribed_topic_regex="t.*",
                assignment=assignment(),
                target_assignment=assignment(1),
                member_type=1,
            ),
        ]
        group = DescribedGroup(
            group_id="g", group_state="Reconciling", group_epoch=5, assignment_epoch=5, members=members
        )
        missing = ClassicGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        answers: dict[int, Any] = {
            ApiKey.FIND_COORDINATOR: FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1)]),
            ApiKey.DESCRIBE_GROUPS: DescribeGroupsResponse(groups=[missing]),
            ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeResponse(groups=[group]),
        }
        return answers[api_key]


def places(told: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each["topic_name"], each["partition_id"]) for each in told]


def test_group_epochs_protocols_and_pending_revocations_are_shown() -> None:
    group = asked(Moving(), HERE)[0].json()
    told = (group["type"], group["state"], group["group_epoch"], group["assignment_epoch"])
    assert told == ("CONSUMER", "RECONCILING", 5, 5)
    assert group["is_mixed_consumer_group"]
    new, old = asked(Moving(), f"{HERE}/consumers")[0].json()["data"]
    assert (old["protocol"], old["member_epoch"], old["subscribed_topics"], old["subscribed_pattern"]) == (
        "CLASSIC",
        4,
        ["t"],
        None,
    )
    assert (places(old["partitions"]), old["partitions_count"]) == ([("t", 0), ("t", 1)], 2)
    assert (places(old["gives_up"]), places(old["waits_for"])) == ([("t", 1)], [])
    assert (new["protocol"], new["member_epoch"], new["subscribed_pattern"]) == ("CONSUMER", 5, "t.*")
    assert (places(new["partitions"]), places(new["gives_up"]), places(new["waits_for"])) == ([], [], [("t", 1)])
