"""The rights that requests of share groups need: Read, Describe or Delete on the group, Read or Describe on topics."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kraft.protocol.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.security.acl_rules import AclRules
from kraft.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceKind
from kraft.world.simulated import Universe
from tests.unit.handlers.test_share_group_states import AUTHORIZER, turn_on
from tests.unit.server.brokers import Broker, broker, simulate

GROUP, TOPIC = ResourceKind.GROUP, ResourceKind.TOPIC
OFFSETS = DescribeShareGroupOffsetsRequest(
    groups=[
        DescribeShareGroupOffsetsRequestGroup(
            group_id="g", topics=[DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])]
        )
    ]
)


def allow(made: Broker, *rights: tuple[int, int]) -> None:
    """Allow everybody these operations, each on groups or on topics, and nothing else."""
    entries = tuple(
        AccessControlEntry(kind, "*", PatternType.LITERAL, "User:*", "*", operation, Permission.ALLOW)
        for kind, operation in rights
    )
    assert made.server.authorizer is not None
    made.server.authorizer.take_rules(AclRules().changed((), entries))


def code_of(response: Any) -> int:
    """The first error code in a response, from the top down."""
    if getattr(response, "error_code", 0):
        return int(response.error_code)
    for name in ("groups", "responses", "topics", "partitions"):
        for each in getattr(response, name, None) or ():
            if code := code_of(each):
                return code
    return 0


@pytest.mark.parametrize(
    ("request_of_it", "right"),
    [
        (ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"]), Operation.READ),
        (ShareGroupDescribeRequest(group_ids=["g"]), Operation.DESCRIBE),
        (ShareFetchRequest(group_id="g", member_id="m"), Operation.READ),
        (ShareAcknowledgeRequest(group_id="g", member_id="m"), Operation.READ),
        (OFFSETS, Operation.DESCRIBE),
        (AlterShareGroupOffsetsRequest(group_id="g"), Operation.READ),
        (DeleteShareGroupOffsetsRequest(group_id="g"), Operation.DELETE),
    ],
    ids=["heartbeat", "describe", "fetch", "acknowledge", "offsets", "alter", "delete"],
)
def test_requests_of_share_groups_need_a_right_on_the_group(request_of_it: Any, right: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(AUTHORIZER,)) as made:
            turn_on(made)
            made.topic("t")
            allow(made, (TOPIC, Operation.READ), (TOPIC, Operation.DESCRIBE))
            assert code_of(await made.ask(request_of_it)) == ErrorCode.GROUP_AUTHORIZATION_FAILED
            allow(made, (TOPIC, Operation.READ), (TOPIC, Operation.DESCRIBE), (GROUP, right))
            assert code_of(await made.ask(request_of_it)) != ErrorCode.GROUP_AUTHORIZATION_FAILED

    simulate(play)


@pytest.mark.parametrize("name", ["heartbeat", "fetch", "offsets", "alter", "delete"])
def test_requests_of_share_groups_need_a_right_on_each_topic(name: str) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=(AUTHORIZER,)) as made:
            turn_on(made)
            topic_id = made.topic("t")
            altered = AlterShareGroupOffsetsRequestTopic(
                topic_name="t", partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0)]
            )
            fetched = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_index=0)])
            request = {
                "heartbeat": ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"]),
                "fetch": ShareFetchRequest(
                    group_id="g", member_id="m", max_records=1, max_bytes=1000, topics=[fetched]
                ),
                "offsets": OFFSETS,
                "alter": AlterShareGroupOffsetsRequest(group_id="g", topics=[altered]),
                "delete": DeleteShareGroupOffsetsRequest(
                    group_id="g", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
                ),
            }[name]
            allow(made, (GROUP, Operation.READ), (GROUP, Operation.DESCRIBE), (GROUP, Operation.DELETE))
            response = await made.ask(request)
            codes = {code_of(response), *(code_of(each) for each in getattr(response, "responses", ()))}
            # An own error of the whole request, such as of a group that is not coordinated here, hides no refusal.
            assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in codes, response

    simulate(play)
