"""A request has a bound on its elements: one of a byte each would otherwise hold a node up for minutes, while it is
decoded and answered."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kraft.common.errors import ProtocolError
from kraft.protocol import api_keys
from kraft.protocol.decoder_source import DecoderSource
from kraft.protocol.framing import RequestHeader
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.broker_registration_request import BrokerRegistrationRequest
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
from kraft.protocol.primitives import ELEMENTS_MAX, TURN_ELEMENTS, write_uvarint
from kraft.protocol.schema import Message
from kraft.world.steps import Steps

MANY = ELEMENTS_MAX + 1
ARRAYS_AND_TAGS = (".append(", "= list(", "for q in range(", "for _ in range(t", ".unknown_tags, p = ")
PARTITIONS = [MetadataResponsePartition()] * 12_000
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
def test_a_request_with_too_many_elements_is_rejected(request_of_many: Message, version: int) -> None:
    with pytest.raises(ProtocolError, match=TOO_MANY):
        type(request_of_many).decode(request_of_many.encode(version), version)


def test_a_request_for_thirty_thousand_topics_is_accepted() -> None:
    topics = [ListOffsetsTopic(name=f"topic-{number}", partitions=[ListOffsetsPartition()]) for number in range(30_000)]
    assert len(ListOffsetsRequest.decode(ListOffsetsRequest(topics=topics).encode(10), 10).topics) == 30_000
    metadata = MetadataRequest(topics=[MetadataRequestTopic(name="")] * ELEMENTS_MAX)
    assert len(MetadataRequest.decode(metadata.encode(9), 9).topics or ()) == ELEMENTS_MAX


def test_the_element_count_of_a_request_includes_all_arrays_and_tag_sections() -> None:
    for key in api_keys.known_keys():
        cls = api_keys.request_class(key)
        low, high = cls.VALID_VERSIONS
        for version in range(low, high + 1):
            text, counting = DecoderSource(cls, version).text(), DecoderSource(cls, version, counting=True).text()
            assert "return decode_counting" in text, (cls, version)
            assert counting.count("left -= ") == sum(counting.count(mark) for mark in ARRAYS_AND_TAGS), (cls, version)


def test_a_response_has_no_element_limit() -> None:
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


def test_unknown_tags_count_as_elements() -> None:
    tags = bytearray()
    write_uvarint(tags, MANY)
    tags += b"\7\0" * MANY
    body = DeleteRecordsRequest().encode(2)
    assert body.endswith(b"\0")
    with pytest.raises(ProtocolError, match=TOO_MANY):
        DeleteRecordsRequest.decode(body[:-1] + tags, 2)
    with pytest.raises(ProtocolError, match="tag section"):
        RequestHeader.decode(struct.pack(">hhih", 3, 12, 1, -1) + tags)


def driven(work: Steps[Any]) -> tuple[int, Any]:
    """How often it paused, and its result."""
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return pauses, end.value
        pauses += 1


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(9000)]), 12),
        (DescribeGroupsRequest(groups=["g"] * 9000), 6),
        (ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition()] * 3)] * 3000), 10),
        (BrokerRegistrationRequest(log_dirs=[bytes([number % 256]) * 16 for number in range(12_000)]), 4),
        (
            MetadataResponse(
                topics=[MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition()] * 12_000)]
            ),
            12,
        ),
    ],
    ids=lambda case: type(case).__name__ if isinstance(case, Message) else f"v{case}",
)
def test_a_large_message_is_decoded_and_encoded_incrementally(message: Message, version: int) -> None:
    encoded = message.encode(version)
    pauses, (decoded, end) = driven(type(message).decode_in_turns(encoded, 0, version))
    assert (decoded, end) == (message, len(encoded))
    assert 9000 // TURN_ELEMENTS <= pauses <= 12_000 // TURN_ELEMENTS + 1
    out = bytearray(b"head")
    pauses, _ = driven(message.encode_in_turns(out, version))
    assert out == b"head" + encoded
    assert isinstance(message, BrokerRegistrationRequest) or pauses >= 9000 // TURN_ELEMENTS


def test_incremental_decoding_rejects_the_same_as_a_single_step() -> None:
    with pytest.raises(ProtocolError, match=TOO_MANY):
        driven(DescribeGroupsRequest.decode_in_turns(DescribeGroupsRequest(groups=[""] * MANY).encode(6), 0, 6))
    with pytest.raises(ProtocolError, match="more elements than"):
        driven(DescribeGroupsRequest.decode_in_turns(b"\x05\x01", 0, 6))


def test_a_message_without_elements_needs_no_pause() -> None:
    assert driven(DeleteRecordsRequest.decode_in_turns(DeleteRecordsRequest().encode(2), 0, 2))[0] == 0
    assert driven(ApiVersionsRequest.decode_in_turns(ApiVersionsRequest().encode(4), 0, 4))[0] == 0
