import subprocess
import sys

import pytest

from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.alter_configs_request import AlterConfigsRequest
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import LeaderIdAndEpoch, PartitionData
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.produce_request import ProduceRequest, TopicProduceData
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.schema import ALL_ABOVE, NO_VERSIONS, Field, fields_of, flexible_in, struct_class


def field(cls: type, name: str) -> Field:
    return next(found for found in fields_of(cls) if found.name == name)


def test_a_declaration_parses_into_fields_in_wire_order() -> None:
    assert [found.name for found in fields_of(ProduceRequest)] == [
        "transactional_id",
        "acks",
        "timeout_ms",
        "topic_data",
    ]
    transactional_id = field(ProduceRequest, "transactional_id")
    assert transactional_id.versions == (3, ALL_ABOVE)
    assert transactional_id.nullable == (3, ALL_ABOVE)
    assert transactional_id.default is None
    assert transactional_id.entity == "transactionalId"
    assert transactional_id.tagged == NO_VERSIONS
    assert not transactional_id.ignorable
    name = field(TopicProduceData, "name")
    assert name.versions == (0, 12)
    assert name.key
    assert name.ignorable


def test_tags_and_literal_defaults_are_parsed() -> None:
    leader = field(PartitionChangeRecord, "leader")
    assert (leader.tag, leader.tagged, leader.default) == (1, (0, ALL_ABOVE), -2)
    assert field(FetchRequest, "max_bytes").default == 0x7FFFFFFF
    assert field(MetadataRequest, "allow_auto_topic_creation").default is True
    assert field(FetchRequest, "rack_id").default == ""


def test_versions_determine_presence_nullability_and_tags() -> None:
    topics = field(MetadataRequest, "topics")
    assert [topics.null_allowed(version) for version in (0, 1, 13)] == [False, True, True]
    operations = field(MetadataRequest, "include_cluster_authorized_operations")
    assert [operations.present(version) for version in (7, 8, 10, 11)] == [False, True, True, False]
    state = field(FetchRequest, "replica_state")
    assert state.is_tagged(15)
    assert not state.is_tagged(14)


def test_arrays_and_structs_are_distinguished() -> None:
    topics = field(MetadataRequest, "topics")
    assert topics.is_array
    assert topics.is_struct
    assert struct_class(MetadataRequest, topics.element_type) is MetadataRequestTopic
    assert not field(FetchRequest, "replica_state").is_array


def test_flexible_versions_start_at_the_version_in_the_schema() -> None:
    assert [flexible_in(MetadataRequest, version) for version in (0, 8, 9, 13)] == [False, False, True, True]
    assert flexible_in(AlterConfigsRequest, 2)


def test_every_field_has_its_schema_default() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.session_epoch, request.rack_id) == (-1, 0x7FFFFFFF, -1, "")
    assert request.cluster_id is None
    assert request.replica_state is None, "a tagged struct that is absent"
    assert request.topics == []
    assert MetadataRequest().topics == []
    assert MetadataResponse().cluster_id is None
    assert PartitionChangeRecord().leader == -2


def test_arrays_are_never_shared_between_messages_and_tuples_become_lists() -> None:
    one, other = MetadataRequest(), MetadataRequest()
    one.topics.append(MetadataRequestTopic(name="a"))
    assert other.topics == []
    given = [MetadataRequestTopic(name="a")]
    assert MetadataRequest(topics=given).topics is given
    assert MetadataRequest(topics=(*given,)).topics == given
    assert MetadataRequest(topics=None).topics is None


def test_messages_with_equal_fields_are_equal_and_messages_are_unhashable() -> None:
    one = PartitionData(partition_index=1, records=b"abc", current_leader=LeaderIdAndEpoch(leader_id=1))
    assert one == PartitionData(
        partition_index=1, records=memoryview(b"abc"), current_leader=LeaderIdAndEpoch(leader_id=1)
    )
    assert one != PartitionData(partition_index=1, records=b"abd", current_leader=LeaderIdAndEpoch(leader_id=1))
    assert one != PartitionData(partition_index=1, records=b"abc", current_leader=LeaderIdAndEpoch(leader_id=2))
    assert one != MetadataRequest()
    with pytest.raises(TypeError):
        hash(one)


def test_a_message_has_no_attributes_but_its_fields() -> None:
    with pytest.raises(AttributeError):
        MetadataRequest().topic = 1  # type: ignore[attr-defined]  # That it is not there is the point.


def test_bytes_are_shown_by_length_only() -> None:
    assert repr(SaslAuthenticateRequest(auth_bytes=b"secret")) == "SaslAuthenticateRequest(auth_bytes=<6 bytes>)"
    assert (
        repr(MetadataRequestTopic(name="a", unknown_tags={5: b"x"}))
        == "MetadataRequestTopic(topic_id=<16 bytes>, name='a', unknown_tags={5: b'x'})"
    )


def test_importing_messages_compiles_no_codec() -> None:
    """Start-up pays for what it uses: a codec is compiled when a version of a message is first met."""
    program = (
        "import sys; from kraft.protocol.messages import fetch_response, metadata_response, produce_request;"
        "assert 'kraft.protocol.codec' not in sys.modules; from kraft.protocol.messages.produce_request "
        "import ProduceRequest as P;"
        "P().encode(9); assert list(P._encoders) == [9] and not P._decoders"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
