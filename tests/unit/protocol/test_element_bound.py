"""A request has a bound on its elements: one of a byte each would otherwise hold a node up for minutes, while it is
decoded and answered."""

from __future__ import annotations

import struct

import pytest

from kraft.common.errors import ProtocolError
from kraft.protocol import api_keys
from kraft.protocol.decoder_source import DecoderSource
from kraft.protocol.framing import RequestHeader
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_records_request import DeleteRecordsRequest
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.primitives import ELEMENTS_MAX, write_uvarint
from kraft.protocol.schema import Message

MANY = ELEMENTS_MAX + 1
ARRAYS_AND_TAGS = (".append(", "= list(", "for q in range(", "for _ in range(t", ".unknown_tags, p = ")
TOO_MANY = f"more than {ELEMENTS_MAX} elements"


@pytest.mark.parametrize(
    ("request_of_many", "version"),
    [
        (DescribeGroupsRequest(groups=[""] * MANY), 6),
        (DescribeGroupsRequest(groups=[""] * MANY), 0),
        (FindCoordinatorRequest(coordinator_keys=[""] * MANY), 6),
        (DeleteGroupsRequest(groups_names=[""] * MANY), 2),
        (MetadataRequest(topics=[MetadataRequestTopic(name="")] * MANY), 9),
        (OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0] * MANY)]), 7),
        (
            ListOffsetsRequest(
                topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition()] * 2)] * (ELEMENTS_MAX // 3 + 1)
            ),
            10,
        ),
        (ConsumerProtocolSubscription(topics=[""] * MANY), 0),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, Message) else f"v{case}",
)
def test_a_request_of_more_elements_is_refused(request_of_many: Message, version: int) -> None:
    with pytest.raises(ProtocolError, match=TOO_MANY):
        type(request_of_many).decode(request_of_many.encode(version), version)


def test_a_request_about_a_hundred_thousand_topics_is_none_of_those() -> None:
    topics = [
        ListOffsetsTopic(name=f"topic-{number}", partitions=[ListOffsetsPartition()]) for number in range(100_000)
    ]
    assert len(ListOffsetsRequest.decode(ListOffsetsRequest(topics=topics).encode(10), 10).topics) == 100_000
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name="")] * ELEMENTS_MAX)
    assert len(MetadataRequest.decode(metadata.encode(9), 9).topics or ()) == ELEMENTS_MAX


def test_each_request_counts_all_its_arrays_and_tag_sections() -> None:
    for key in api_keys.known_keys():
        cls = api_keys.request_class(key)
        low, high = cls.VALID_VERSIONS
        for version in range(low, high + 1):
            text, counting = DecoderSource(cls, version).text(), DecoderSource(cls, version, counting=True).text()
            assert "return decode_counting" in text, (cls, version)
            assert counting.count("left -= ") == sum(counting.count(mark) for mark in ARRAYS_AND_TAGS), (cls, version)


def test_an_answer_is_as_long_as_it_is() -> None:
    partition = MetadataResponsePartition(replica_nodes=[1] * MANY)
    answer = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])])
    assert MetadataResponse.decode(answer.encode(12), 12) == answer


def test_records_of_a_large_request_are_no_elements_and_stay_a_view() -> None:
    request = ProduceRequest(
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(2 * ELEMENTS_MAX))])
        ]
    )
    frame = bytearray(request.encode(9))
    records = ProduceRequest.decode(frame, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_unknown_tags_count_as_elements_do() -> None:
    tags = bytearray()
    write_uvarint(tags, MANY)
    tags += b"\7\0" * MANY
    body = DeleteRecordsRequest().encode(2)
    assert body.endswith(b"\0")
    with pytest.raises(ProtocolError, match=TOO_MANY):
        DeleteRecordsRequest.decode(body[:-1] + tags, 2)
    with pytest.raises(ProtocolError, match="tag section"):
        RequestHeader.decode(struct.pack(">hhih", 3, 12, 1, -1) + tags)
