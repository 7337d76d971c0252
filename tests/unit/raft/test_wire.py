"""The RPCs on the wire: what the core says is what the other core hears, in every version that can carry it."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.common.ids import METADATA_TOPIC, OffsetAndEpoch
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import vote_request
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.raft import wire_requests, wire_responses
from kraft.raft.control_batches import decode_control, encode_payload
from kraft.raft.core import messages as core
from kraft.raft.core.messages import LeaderHint
from kraft.raft.core.payloads import LeaderChange, Voters
from kraft.raft.core.voter_set import Endpoint
from kraft.raft.metadata_log import RecordBatch
from tests.unit.raft.builders import data_batch, key_of, voter_of, voters_of

REQUESTS: list[core.Request] = [
    core.VoteRequest(7, key_of(1), 6, 100, True, 2, key_of(2).directory_id, "cluster"),
    core.BeginQuorumEpochRequest(7, 1, voter_of(1).endpoints, 2, key_of(2).directory_id, "cluster"),
    core.EndQuorumEpochRequest(7, 1, (key_of(3), key_of(2)), voter_of(1).endpoints, "cluster"),
    core.FetchRequest(key_of(2), 7, 100, 6, 90, 500, 1 << 20, "cluster"),
    core.FetchSnapshotRequest(key_of(2), 7, OffsetAndEpoch(50, 5), 1_000, 1 << 20, "cluster"),
    core.UpdateVoterRequest(7, voter_of(2), "cluster"),
    core.AddVoterRequest(voter_of(2)._replace(max_version=0), 2_000, False, "cluster"),
    core.RemoveVoterRequest(key_of(2), cluster_id="cluster"),
]
HINT = LeaderHint(1, 7, (Endpoint("", "host1", 9093),))
RESPONSES: list[tuple[core.Request, core.Response]] = [
    (REQUESTS[0], core.VoteResponse(HINT, True)),
    (REQUESTS[0], core.VoteResponse(HINT, False, ErrorCode.FENCED_LEADER_EPOCH)),
    (REQUESTS[1], core.BeginQuorumEpochResponse(HINT)),
    (REQUESTS[2], core.EndQuorumEpochResponse(HINT, ErrorCode.INVALID_REQUEST)),
    (REQUESTS[3], core.FetchResponse(HINT, high_watermark=90, log_start_offset=10)),
    (REQUESTS[3], core.FetchResponse(HINT, high_watermark=90, log_start_offset=10, diverging=OffsetAndEpoch(80, 5))),
    (REQUESTS[3], core.FetchResponse(HINT, high_watermark=90, log_start_offset=10, snapshot=OffsetAndEpoch(80, 5))),
    (REQUESTS[4], core.FetchSnapshotResponse(HINT, 0, OffsetAndEpoch(50, 5), 1_000, 1 << 20, 5_000, b"bytes")),
    (REQUESTS[5], core.VoterResponse(HINT, ErrorCode.VOTER_NOT_FOUND)),
    (REQUESTS[6], core.VoterResponse(LeaderHint(), ErrorCode.DUPLICATE_VOTER, "node 2 is a voter already")),
    (REQUESTS[7], core.VoterResponse(LeaderHint(), ErrorCode.VOTER_NOT_FOUND, "no such voter")),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: type(r).__name__)
def test_requests_survive_encoding_and_decoding(request_: core.Request) -> None:
    message = wire_requests.TO_WIRE[type(request_)](request_)
    version = message.VALID_VERSIONS[1]
    decoded = type(message).decode(message.encode(version), version)
    assert wire_requests.TO_CORE[type(decoded)](decoded) == request_


@pytest.mark.parametrize(("request_", "response"), RESPONSES, ids=lambda r: type(r).__name__)
def test_responses_survive_encoding_and_decoding(request_: core.Request, response: core.Response) -> None:
    message = wire_responses.answer_to(wire_requests.TO_WIRE[type(request_)](request_), response, 99, b"")
    version = message.VALID_VERSIONS[1]
    decoded = type(message).decode(message.encode(version), version)
    assert wire_responses.TO_CORE[type(request_)](request_, decoded) == response


@pytest.mark.parametrize(("request_", "response"), RESPONSES, ids=lambda r: type(r).__name__)
def test_responses_can_be_encoded_in_every_older_version(request_: core.Request, response: core.Response) -> None:
    asked = wire_requests.TO_WIRE[type(request_)](request_)
    lowest = 12 if isinstance(asked, FetchRequest) else asked.VALID_VERSIONS[0]  # Raft came to Fetch with version 12.
    for version in range(lowest, asked.VALID_VERSIONS[1] + 1):
        assert wire_responses.answer_to(asked, response, version, b"").encode(version)


def test_fetched_records_are_split_into_batches_and_validated() -> None:
    records = data_batch(10, "a", "b", epoch=7) + data_batch(12, "c", epoch=7)
    message = wire_responses.fetch_to_wire(core.FetchResponse(HINT, high_watermark=9), 18, records + records[:20])
    found = wire_responses.fetch_to_core(REQUESTS[3], message)  # type: ignore[arg-type]
    assert isinstance(found, core.FetchResponse)
    assert [(batch.base_offset, batch.last_offset, batch.epoch) for batch in found.batches] == [
        (10, 11, 7),
        (12, 12, 7),
    ]
    damaged = bytearray(records)
    damaged[70] ^= 1
    with pytest.raises(Exception, match="CRC"):
        wire_responses.fetch_to_core(
            REQUESTS[3], wire_responses.fetch_to_wire(core.FetchResponse(HINT), 18, bytes(damaged))
        )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [vote_request.TopicData(topic_name="another", partitions=[vote_request.PartitionData()])],
        [vote_request.TopicData(topic_name=METADATA_TOPIC, partitions=[vote_request.PartitionData(partition_index=1)])],
        [vote_request.TopicData(topic_name=METADATA_TOPIC, partitions=[])],
        [vote_request.TopicData(topic_name=METADATA_TOPIC, partitions=[vote_request.PartitionData()])] * 2,
    ],
)
def test_a_request_for_any_topic_but_the_metadata_log_is_refused(topics: list[vote_request.TopicData]) -> None:
    with pytest.raises(ApiError):
        wire_requests.vote_to_core(vote_request.VoteRequest(topics=topics))


def test_a_probed_node_without_kraft_version_supports_0_only() -> None:
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    assert wire_responses.probe_to_core(
        core.ProbeVersionsRequest(), ApiVersionsResponse(supported_features=[feature])
    ) == core.ProbeVersionsResponse(0, 1)
    assert wire_responses.probe_to_core(
        core.ProbeVersionsRequest(), ApiVersionsResponse()
    ) == core.ProbeVersionsResponse(0, 0)


def test_control_batches_read_back_equal() -> None:
    change = LeaderChange(1, (key_of(1), key_of(2)), (key_of(1),), Voters(1, voters_of(1, 2)))
    batch = RecordBatch(encode_payload(change, base_offset=5, epoch=3, timestamp_ms=1))
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.is_control) == (5, 7, 3, True)
    content = decode_control(batch)
    assert (content.voters, content.kraft_version) == (voters_of(1, 2), 1)
    alone = RecordBatch(encode_payload(LeaderChange(1, (), ()), base_offset=5, epoch=3, timestamp_ms=1))
    assert decode_control(alone).voters is None
    assert alone.count == 1
