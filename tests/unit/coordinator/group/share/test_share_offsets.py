"""Start offsets of share groups, as a group's coordinator learns them from share coordinators."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.coordinator.group.share.state_changes import begin_alter
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from tests.unit.coordinator.group.streams.applications import Application
from tests.unit.coordinator.service import run, serving


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE),
    ],
)
def test_a_share_coordinator_that_fails_is_no_missing_start_offset(refused: int, told: int) -> None:
    async def scenario() -> None:
        async with serving() as service:
            service.share_states.refusals = [ApiError(refused, "why")]
            named = DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])
            wanted = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[named])
            described = await service.coordinator.share.describe_offsets(wanted)
            [part] = described.topics[0].partitions
            assert (part.start_offset, part.error_code) == (-1, told)

    run(scenario)


def test_altering_offsets_is_refused_for_the_id_of_a_streams_group() -> None:
    it = Application()
    it.join("a1")
    with pytest.raises(ApiError) as refusal:
        it.host.run(lambda draft: begin_alter(draft, "g", {}))
    assert (refusal.value.code, refusal.value.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a share group.",
    )
    assert not it.host.state.share_groups, "an id has one group"
