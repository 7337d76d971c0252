import struct
import tracemalloc
from collections.abc import Callable

import pytest

from kraft.common.errors import ProtocolError
from kraft.coordinator.records.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.metadata.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kraft.protocol.codec import decoder_source, encoder_source
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest, DirectoryData
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.describe_topic_partitions_request import Cursor, DescribeTopicPartitionsRequest
from kraft.protocol.messages.fetch_request import FetchRequest, ReplicaState
from kraft.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kraft.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.protocol.messages.list_offsets_request import ListOffsetsRequest
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.request_header import RequestHeader
from kraft.protocol.schema import Message

HUGE = 0x7FFFFFFF


def produce() -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=1500,
        topic_data=[TopicProduceData(name="ab", partition_data=[PartitionProduceData(index=7, records=b"rec")])],
    )


def test_a_classic_version_has_fixed_lengths() -> None:
    expected = (
        b"\xff\xff"
        + b"\xff\xff"
        + struct.pack(">i", 1500)
        + struct.pack(">i", 1)
        + b"\0\2ab"
        + struct.pack(">i", 1)
        + struct.pack(">ii", 7, 3)
        + b"rec"
    )
    assert produce().encode(3) == expected
    assert ProduceRequest.decode(expected, 3) == produce()


def test_a_flexible_version_has_compact_lengths_and_tag_sections() -> None:
    expected = (
        b"\0"
        + b"\xff\xff"
        + struct.pack(">i", 1500)
        + b"\2"
        + b"\3ab"
        + b"\2"
        + struct.pack(">i", 7)
        + b"\4rec"
        + b"\0"
        + b"\0"
        + b"\0"
    )
    assert produce().encode(9) == expected
    assert ProduceRequest.decode(expected, 9) == produce()


def test_the_client_id_of_a_request_header_is_never_compact() -> None:
    header = RequestHeader(request_api_key=3, request_api_version=12, correlation_id=5, client_id="me")
    assert header.encode(2) == struct.pack(">hhih", 3, 12, 5, 2) + b"me" + b"\0"


def test_records_and_zero_copy_bytes_are_views_and_other_bytes_are_copies() -> None:
    frame = bytearray(produce().encode(9))
    records = ProduceRequest.decode(frame, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    subscription = ConsumerProtocolSubscription.decode(ConsumerProtocolSubscription(user_data=b"u").encode(0), 0)
    assert isinstance(subscription.user_data, memoryview)
    join = JoinGroupRequest(protocols=[JoinGroupRequestProtocol(name="range", metadata=b"meta")]).encode(5)
    assert type(JoinGroupRequest.decode(memoryview(join), 5).protocols[0].metadata) is bytes
    frame[frame.index(b"rec")] = ord("R")
    assert bytes(records) == b"Rec"


def test_null_and_empty_are_distinct() -> None:
    for topics in (None, []):
        for version in (1, 9):
            assert MetadataRequest.decode(MetadataRequest(topics=topics).encode(version), version).topics == topics


def test_null_where_a_version_forbids_it_is_rejected_in_both_directions() -> None:
    with pytest.raises(ProtocolError, match="topics"):
        MetadataRequest(topics=None).encode(0)
    with pytest.raises(ProtocolError, match="topics"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)
    with pytest.raises(ProtocolError, match="name"):
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]).encode(9)
    with pytest.raises(ProtocolError, match="topics"):
        CreateTopicsRequest.decode(b"\0\0\0\0\0\0", 5)


def test_a_field_missing_in_a_version_is_dropped_if_ignorable_and_rejected_otherwise() -> None:
    assert FetchRequest(rack_id="r").encode(4) == FetchRequest().encode(4)
    with pytest.raises(ProtocolError, match="replica_state"):
        FetchRequest(replica_state=ReplicaState(replica_id=1)).encode(14)
    with pytest.raises(ProtocolError, match="replica_id"):
        FetchRequest(replica_id=1).encode(15)
    with pytest.raises(ProtocolError, match="allow_auto_topic_creation"):
        MetadataRequest(allow_auto_topic_creation=False).encode(3)


def test_a_rejected_message_leaves_the_output_unchanged() -> None:
    out = bytearray(b"before")
    for refused in (
        ProduceRequest(timeout_ms=1 << 31),
        ProduceRequest(transactional_id="\ud800"),
        ProduceRequest(transactional_id="x" * 32768),
    ):
        for version in (3, 9):
            with pytest.raises(ProtocolError):
                refused.encode_into(out, version)
            assert out == b"before"


def test_a_uuid_of_another_length_is_rejected() -> None:
    for wrong in (b"", bytes(15), bytes(17)):
        with pytest.raises(ProtocolError, match="16 bytes"):
            AssignReplicasToDirsRequest(directories=[DirectoryData(id=wrong)]).encode(0)
        with pytest.raises(ProtocolError, match="16 bytes"):
            BrokerHeartbeatRequest(offline_log_dirs=[wrong]).encode(1)


@pytest.mark.parametrize("version", [-1, 2, 14, 32767])
def test_a_version_outside_the_valid_ones_is_rejected(version: int) -> None:
    with pytest.raises(ProtocolError, match="no version"):
        produce().encode(version)
    with pytest.raises(ProtocolError, match="no version"):
        ProduceRequest.decode(b"", version)


def test_tagged_fields_are_written_only_when_they_differ_from_their_default() -> None:
    assert PartitionChangeRecord(partition_id=1).encode(0) == b"\0\0\0\1" + bytes(16) + b"\0"
    changed = PartitionChangeRecord(partition_id=1, leader=-1, isr=[])
    assert changed.encode(0) == b"\0\0\0\1" + bytes(16) + b"\2" + b"\0\1\1" + b"\1\4\xff\xff\xff\xff"
    assert PartitionChangeRecord.decode(changed.encode(0), 0) == changed


def test_a_tagged_struct_is_none_when_absent_and_not_written_when_it_is_its_default() -> None:
    def response(**tagged: object) -> FetchResponse:
        return FetchResponse(
            responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=b"", **tagged)])]
        )  # type: ignore[arg-type]  # Fields by name.

    assert response(current_leader=LeaderIdAndEpoch()).encode(12) == response().encode(12)
    present = response(
        current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=4),
        diverging_epoch=EpochEndOffset(epoch=2, end_offset=9),
    )
    decoded = FetchResponse.decode(present.encode(12), 12)
    assert decoded == present
    assert decoded.responses[0].partitions[0].snapshot_id is None


def test_an_untagged_null_struct_is_a_negative_byte() -> None:
    request = DescribeTopicPartitionsRequest(response_partition_limit=5)
    assert request.encode(0) == b"\1" + b"\0\0\0\5" + b"\xff" + b"\0"
    request.cursor = Cursor(topic_name="t", partition_index=2)
    assert request.encode(0) == b"\1" + b"\0\0\0\5" + b"\1" + b"\2t\0\0\0\2\0" + b"\0"
    assert DescribeTopicPartitionsRequest.decode(request.encode(0), 0) == request


def test_a_null_struct_in_the_tag_section_is_a_varint_and_differs_from_an_absent_one() -> None:
    """Checked against Apache Kafka 4.3.1: a JSON null default means a new struct, so null itself is written out."""
    absent, null = ConsumerGroupMemberMetadataValue(), ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    assert absent.classic_member_metadata == ClassicMemberMetadata()
    assert absent.encode(0).endswith(b"\0")
    assert null.encode(0) == absent.encode(0)[:-1] + b"\1" + b"\0\1\0"
    full = ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata(session_timeout_ms=9))
    assert full.encode(0) == absent.encode(0)[:-1] + b"\1" + b"\0\7\1" + b"\0\0\0\x09\1\0"
    for value in (absent, null, full):
        assert ConsumerGroupMemberMetadataValue.decode(value.encode(0), 0) == value


def test_unknown_tags_are_preserved() -> None:
    request = ApiVersionsRequest(
        client_software_name="n", client_software_version="v", unknown_tags={9: b"future", 300: b""}
    )
    assert ApiVersionsRequest.decode(request.encode(3), 3) == request
    record = RegisterBrokerRecord(unknown_tags={1: b"\x05"})
    old = RegisterBrokerRecord.decode(record.encode(3), 3)
    assert old.unknown_tags == {1: b"\x05"}
    with pytest.raises(ProtocolError, match="repeat"):
        RegisterBrokerRecord(cordoned_log_dirs=[], unknown_tags={1: b"\x05"}).encode(4)


def test_a_tagged_field_with_a_wrong_size_is_rejected() -> None:
    head = b"\0\0\0\1" + bytes(16) + b"\1"
    assert PartitionChangeRecord.decode(head + b"\1\4\0\0\0\5", 0).leader == 5
    for section in (b"\1\3\0\0\0\5", b"\1\5\0\0\0\5", b"\1\5\0\0\0\5\0", b"\1\x7f\0\0\0\5"):
        with pytest.raises(ProtocolError, match="tagged field"):
            PartitionChangeRecord.decode(head + section, 0)


def test_a_string_may_not_pass_the_end_of_the_buffer_by_a_single_byte() -> None:
    whole = CreateTopicsRequest(topics=[CreatableTopic(name="abc")]).encode(5)
    for message, version in (
        (ProduceRequest(topic_data=[TopicProduceData(name="abc")]), 3),
        (MetadataRequest(topics=[MetadataRequestTopic(name="abc")]), 0),
    ):
        encoded = message.encode(version)
        for cut in range(len(encoded)):
            with pytest.raises(ProtocolError):
                type(message).decode_from(encoded[:cut], 0, version)
    with pytest.raises(ProtocolError, match="malformed"):
        CreateTopicsRequest.decode(whole.replace(b"abc", b"\xff\xfe\xfd"), 5)


def array_claims() -> list[tuple[str, Callable[[], Message]]]:
    count = struct.pack(">i", HUGE)
    compact = b"\xff\xff\xff\xff\x07"
    return [
        ("structs", lambda: MetadataRequest.decode(count + b"\0\1a" * 10, 0)),
        ("compact structs", lambda: MetadataRequest.decode(compact + b"\2a\0" * 10, 9)),
        ("numbers", lambda: ListOffsetsRequest.decode(b"\0\0\0\1" + count, 1)),
        ("uuids", lambda: BrokerHeartbeatRequest.decode(bytes(22) + b"\1" + b"\0\5" + compact, 1)),
        ("small numbers", lambda: PartitionChangeRecord.decode(bytes(20) + b"\1\0\5" + compact, 0)),
        (
            "records",
            lambda: ProduceRequest.decode(
                bytes(2) + b"\0\1" + bytes(4) + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\1" + bytes(4) + count, 3
            ),
        ),
        ("tags", lambda: ApiVersionsRequest.decode(b"\1\1" + compact, 3)),
        ("tag", lambda: ApiVersionsRequest.decode(b"\1\1\1\5" + compact, 3)),
    ]


@pytest.mark.parametrize(("name", "decode"), array_claims(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_claimed_size_allocates_no_memory(name: str, decode: Callable[[], Message]) -> None:
    with pytest.raises(ProtocolError):
        decode()  # Compiles, so that only decoding is measured below.
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode()
        assert tracemalloc.get_traced_memory()[1] < 100_000, name
    finally:
        tracemalloc.stop()


def test_a_long_array_is_encoded_like_a_short_one() -> None:
    for count in (0, 1, 15, 16, 17, 18, 126, 127, 128, 1000):
        record = PartitionChangeRecord(isr=list(range(count)))
        assert PartitionChangeRecord.decode(record.encode(0), 0) == record


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 1000, 16382, 16383, 70000])
def test_records_of_any_length_are_encoded_unchanged(size: int) -> None:
    partition = PartitionProduceData(records=bytes(size))
    request = ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    for version in (3, 9):
        assert ProduceRequest.decode(request.encode(version), version) == request


def test_a_string_longer_than_32767_bytes_is_rejected_when_read() -> None:
    longest = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32767)]).encode(9)
    assert MetadataRequest.decode(longest, 9).encode(9) == longest
    longer = longest.replace(b"\x80\x80\x02", b"\x81\x80\x02").replace(b"xx\0", b"xxx\0")
    with pytest.raises(ProtocolError, match="32767"):
        MetadataRequest.decode(longer, 9)


def test_a_port_is_unsigned() -> None:
    record = RegisterBrokerRecord(end_points=[BrokerEndpoint(name="L", host="h", port=65535)])
    assert RegisterBrokerRecord.decode(record.encode(0), 0) == record


def test_the_generated_codec_source_can_be_read() -> None:
    assert "def decode(buffer, position):" in decoder_source(ProduceRequest, 9)
    assert "def encode(m, out):" in encoder_source(ProduceRequest, 9)
