"""Start offsets of share groups, as a group's coordinator learns them from share coordinators."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
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
