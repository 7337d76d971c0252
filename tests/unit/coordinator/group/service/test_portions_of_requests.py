"""Offset requests about many partitions, cut into portions: nothing is lost, nothing comes twice, a small one stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.group.service.offset_requests import Merging, commit_error, commit_portions, delete_portions
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_commit_response import OffsetCommitResponse
from kraft.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


def commit(sizes: list[int]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        member_id="m",
        generation_id_or_member_epoch=3,
        topics=[
            OffsetCommitRequestTopic(
                name=f"t{number}",
                topic_id=bytes(15) + bytes([number]),
                partitions=[OffsetCommitRequestPartition(partition_index=index) for index in range(size)],
            )
            for number, size in enumerate(sizes)
        ],
    )


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(2, 30))
def test_request_chunks_contain_every_partition_once_within_the_limit(sizes: list[int], partitions_max: int) -> None:
    request = commit(sizes)
    portions = list(commit_portions(request, partitions_max) or (request,))
    if len(sizes) + sum(sizes) <= partitions_max:
        assert [portion is request for portion in portions] == [True]
    whole = OffsetCommitResponse()
    merging = Merging(whole.topics)
    for portion in portions:
        assert (portion.group_id, portion.member_id, portion.generation_id_or_member_epoch) == ("g", "m", 3)
        assert len(portion.topics) + sum(len(topic.partitions) for topic in portion.topics) <= partitions_max
        merging.add(commit_error(portion, 7).topics)
    assert whole == commit_error(request, 7)


def test_a_delete_request_is_split_into_chunks_in_the_same_way() -> None:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(10)]
    request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
    assert list(delete_portions(request, 11)) == [request]
    cut = list(delete_portions(request, 5))
    assert [len(portion.topics[0].partitions) for portion in cut] == [4, 4, 2]
    assert [each for portion in cut for each in portion.topics[0].partitions] == partitions
