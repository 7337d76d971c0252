"""The hand-written Fetch encoder and the generated codec write the same bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft.handlers.fetch.encoder import COPY_BYTES_MAX, FetchedPartition, encode_fetch_reply
from kraft.network.reply import FileRange, Reply
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.framing import encode_response
from kraft.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kraft.replication.sessions.fetch_session import PartitionKey

SMALL = st.integers(min_value=0, max_value=2**31 - 1)
OFFSETS = st.integers(min_value=-1, max_value=2**62)


class BytesFile:
    """A file of known bytes."""

    path = "/bytes"

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read_resident(self, count: int, offset: int) -> bytes:
        return self.content[offset : offset + count]

    def pread(self, count: int, offset: int) -> bytes:
        return self.content[offset : offset + count]


@st.composite
def partitions(draw: st.DrawFn) -> FetchedPartition:
    name = draw(st.sampled_from(["a", "topic-b", "ü"]))
    partition = FetchedPartition(
        PartitionKey(name.encode().ljust(16, b"\0"), name, draw(SMALL)), draw(st.integers(min_value=-1, max_value=120))
    )
    partition.high_watermark = draw(OFFSETS)
    partition.last_stable_offset = draw(OFFSETS)
    partition.log_start_offset = draw(OFFSETS)
    partition.aborted = draw(st.none() | st.lists(st.tuples(OFFSETS, OFFSETS), max_size=3))
    partition.diverging = draw(st.none() | st.tuples(SMALL, OFFSETS))
    partition.leader = draw(st.none() | st.tuples(SMALL, SMALL))
    contents = draw(st.lists(st.integers(min_value=1, max_value=3 * COPY_BYTES_MAX), max_size=3))
    partition.ranges = [
        FileRange(BytesFile(bytes(7) + bytes([index + 1]) * size), 7, size, None) for index, size in enumerate(contents)
    ]
    partition.size = sum(contents)
    return partition


def whole(reply: Reply) -> bytes:
    return b"".join(
        part.file.pread(part.size, part.position) if isinstance(part, FileRange) else bytes(part)
        for part in reply.parts
    )


def as_message(
    version: int, error_code: int, session_id: int, results: list[FetchedPartition], endpoints: list[NodeEndpoint]
) -> FetchResponse:
    response = FetchResponse(
        error_code=error_code, session_id=session_id, node_endpoints=endpoints if version >= 16 else []
    )
    for result in results:
        data = PartitionData(
            partition_index=result.key.partition,
            error_code=result.error_code,
            high_watermark=result.high_watermark,
            last_stable_offset=result.last_stable_offset,
            log_start_offset=result.log_start_offset,
            aborted_transactions=None
            if result.aborted is None
            else [AbortedTransaction(producer_id=a, first_offset=b) for a, b in result.aborted],
            records=b"".join(part.file.pread(part.size, part.position) for part in result.ranges),
        )
        if version >= 12:
            data.diverging_epoch = (
                None
                if result.diverging is None
                else EpochEndOffset(epoch=result.diverging[0], end_offset=result.diverging[1])
            )
            data.current_leader = (
                None
                if result.leader is None
                else LeaderIdAndEpoch(leader_id=result.leader[0], leader_epoch=result.leader[1])
            )
        last = response.responses[-1] if response.responses else None
        if last is None or last.topic != result.key.topic:
            last = FetchableTopicResponse(topic=result.key.topic, topic_id=result.key.topic_id)
            response.responses.append(last)
        last.partitions.append(data)
    return response


@given(
    version=st.integers(min_value=4, max_value=18),
    session_id=SMALL,
    results=st.lists(partitions(), max_size=4),
    endpoints=st.lists(
        st.builds(NodeEndpoint, node_id=SMALL, host=st.just("host"), port=SMALL, rack=st.none() | st.just("r")),
        max_size=2,
    ),
)
def test_the_fast_encoder_agrees_with_the_codec(
    version: int, session_id: int, results: list[FetchedPartition], endpoints: list[NodeEndpoint]
) -> None:
    reply = encode_fetch_reply(77, version, 0, session_id, results, endpoints)
    expected = as_message(version, 0, session_id if version >= 7 else 0, results, endpoints)
    assert whole(reply) == bytes(encode_response(ApiKey.FETCH, version, 77, expected))


def test_large_records_are_sent_from_their_file_without_a_copy() -> None:
    partition = FetchedPartition(PartitionKey(bytes(16), "t", 0))
    partition.ranges = [FileRange(BytesFile(b"x" * 100_000), 0, 100_000, None)]
    partition.size = 100_000
    reply = encode_fetch_reply(1, 12, 0, 0, [partition])
    assert [type(part).__name__ for part in reply.parts] == ["bytearray", "FileRange", "bytearray"]
