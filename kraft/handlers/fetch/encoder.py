"""A hand-written encoder for Fetch responses, the only message of which parts are sent from file to socket. The layout
is that of the generated codec (a test compares them), but record bytes stay file ranges.

Layout per version: KIP-74 (v3 and later: response max bytes), KIP-98 (v4), KIP-107 (v5), KIP-227 (v7), KIP-392 (v11),
KIP-482 (v12), KIP-516 (v13), KIP-951 (v16).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kraft.network.reply import FileRange, Reply
from kraft.protocol.messages.fetch_response import NodeEndpoint
from kraft.protocol.primitives import write_uvarint
from kraft.replication.sessions.fetch_session import PartitionKey
from kraft.world.ports import Buffer
from kraft.world.steps import Steps

if TYPE_CHECKING:
    from kraft.replication.partition import Partition

FLEXIBLE_VERSION = 12
COPY_BYTES_MAX = 8192
"""Records up to this size that are in memory are copied into the response. Others are sent from their file."""

_PARTITION_V4 = struct.Struct(">ihqq")
_PARTITION = struct.Struct(">ihqqq")
_I32 = struct.Struct(">i")
_I16 = struct.Struct(">h")
_QQ = struct.Struct(">qq")


class RemoteFetch(NamedTuple):
    """A read of one partition that only the remote tier can serve."""

    partition: Partition
    offset: int
    max_bytes: int


class FetchedPartition:
    """One partition's part of the response. `ranges` are whole batches in files; `diverging` is (epoch, end offset);
    `leader` is the (id, epoch) of the leader that the client should use."""

    __slots__ = (
        "aborted",
        "diverging",
        "error_code",
        "high_watermark",
        "key",
        "last_stable_offset",
        "leader",
        "log_start_offset",
        "preferred_read_replica",
        "ranges",
        "records",
        "remote",
        "size",
    )

    def __init__(self, key: PartitionKey, error_code: int = 0) -> None:
        self.key = key
        self.error_code = error_code
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.aborted: Sequence[tuple[int, int]] | None = None
        self.preferred_read_replica = -1
        self.diverging: tuple[int, int] | None = None
        self.leader: tuple[int, int] | None = None
        self.ranges: Sequence[FileRange] = ()
        self.records: memoryview | None = None
        """Records from memory, instead of `ranges`."""
        self.remote: RemoteFetch | None = None
        """A read of the remote tier that must complete before the response is sent."""
        self.size = 0

    @property
    def is_urgent(self) -> bool:
        """Whether the response must not wait for more records: there is an error, a divergence, another replica to read
        from, or a remote read."""
        return (
            bool(self.error_code)
            or self.diverging is not None
            or self.preferred_read_replica >= 0
            or self.remote is not None
        )


def encode_fetch_reply(
    correlation_id: int,
    version: int,
    error_code: int,
    session_id: int,
    partitions: Sequence[FetchedPartition],
    node_endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> Reply:
    """A whole response frame."""
    topics = _by_topic(partitions)
    writer = _begin(correlation_id, version, error_code, session_id, len(topics), throttle_ms)
    for topic in topics:
        _begin_topic(writer, topic, version)
        for partition in topic:
            _partition(writer, partition, version)
        _end_topic(writer, version)
    return _end(writer, version, node_endpoints, throttle_ms)


def encode_fetch_reply_steps(
    correlation_id: int,
    version: int,
    error_code: int,
    session_id: int,
    partitions: Sequence[FetchedPartition],
    node_endpoints: Sequence[NodeEndpoint] = (),
    throttle_ms: int = 0,
) -> Steps[Reply]:
    """Encode as `encode_fetch_reply` does, but yield after each partition."""
    topics = _by_topic(partitions)
    writer = _begin(correlation_id, version, error_code, session_id, len(topics), throttle_ms)
    for topic in topics:
        _begin_topic(writer, topic, version)
        for partition in topic:
            _partition(writer, partition, version)
            yield None
        _end_topic(writer, version)
    return _end(writer, version, node_endpoints, throttle_ms)


def _begin(
    correlation_id: int, version: int, error_code: int, session_id: int, topics: int, throttle_ms: int
) -> _Writer:
    flexible = version >= FLEXIBLE_VERSION
    writer = _Writer()
    out = writer.out
    out += b"\0\0\0\0"  # The frame's size, known at the end.
    out += _I32.pack(correlation_id)
    if flexible:
        out += b"\0"
    out += _I32.pack(throttle_ms)
    if version >= 7:
        out += _I16.pack(error_code)
        out += _I32.pack(session_id)
    _length(out, topics, flexible)
    return writer


def _end(writer: _Writer, version: int, endpoints: Sequence[NodeEndpoint], throttle_ms: int) -> Reply:
    if endpoints and version >= 16:
        _tags(writer.out, [(0, _endpoints(endpoints, version))])
    elif version >= FLEXIBLE_VERSION:
        writer.out.append(0)
    return writer.reply(throttle_ms)


class _Writer:
    """A response being encoded. `out` is the buffer after the last file range."""

    __slots__ = ("out", "parts", "size")

    def __init__(self) -> None:
        self.out = bytearray()
        self.parts: list[Buffer | FileRange] = [self.out]
        self.size = 0

    def add_range(self, part: FileRange) -> None:
        data = part.file.read_resident(part.size, part.position) if part.size <= COPY_BYTES_MAX else None
        if data is not None:
            self.out += data
        else:
            self.parts.append(part)
            self.size += part.size + len(self.out)
            self.out = bytearray()
            self.parts.append(self.out)

    def add_records(self, records: memoryview) -> None:
        self.parts.append(records)
        self.size += len(records) + len(self.out)
        self.out = bytearray()
        self.parts.append(self.out)

    def reply(self, throttle_ms: int) -> Reply:
        first = self.parts[0]
        assert isinstance(first, bytearray)
        _I32.pack_into(first, 0, self.size + len(self.out) - 4)
        if not self.out:
            self.parts.pop()
        return Reply(self.parts, throttle_ms)


def _by_topic(partitions: Sequence[FetchedPartition]) -> list[list[FetchedPartition]]:
    """Group adjacent partitions of the same topic, in the given order."""
    topics: list[list[FetchedPartition]] = []
    for partition in partitions:
        if topics and topics[-1][0].key[:2] == partition.key[:2]:
            topics[-1].append(partition)
        else:
            topics.append([partition])
    return topics


def _begin_topic(writer: _Writer, topic: list[FetchedPartition], version: int) -> None:
    flexible = version >= FLEXIBLE_VERSION
    out = writer.out
    key = topic[0].key
    if version >= 13:
        out += key.topic_id
    else:
        name = key.topic.encode()
        if flexible:
            _length(out, len(name), flexible)
        else:
            out += _I16.pack(len(name))
        out += name
    _length(out, len(topic), flexible)


def _end_topic(writer: _Writer, version: int) -> None:
    if version >= FLEXIBLE_VERSION:
        writer.out.append(0)


def _partition(writer: _Writer, partition: FetchedPartition, version: int) -> None:
    flexible = version >= FLEXIBLE_VERSION
    out = writer.out
    index = partition.key.partition
    if version >= 5:
        out += _PARTITION.pack(
            index,
            partition.error_code,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
        )
    else:
        out += _PARTITION_V4.pack(index, partition.error_code, partition.high_watermark, partition.last_stable_offset)
    aborted = partition.aborted
    _length(out, -1 if aborted is None else len(aborted), flexible)
    for producer_id, first_offset in aborted or ():
        out += _QQ.pack(producer_id, first_offset)
        if flexible:
            out.append(0)
    if version >= 11:
        out += _I32.pack(partition.preferred_read_replica)
    _length(out, partition.size, flexible)
    for part in partition.ranges:
        writer.add_range(part)
    if partition.records:
        writer.add_records(partition.records)
    if flexible and partition.diverging is None and partition.leader is None:
        writer.out.append(0)
    elif flexible:
        tags = []
        if partition.diverging is not None:
            epoch, end_offset = partition.diverging
            tags.append((0, struct.pack(">iqB", epoch, end_offset, 0)))
        if partition.leader is not None:
            tags.append((1, struct.pack(">iiB", *partition.leader, 0)))
        _tags(writer.out, tags)


def _endpoints(endpoints: Sequence[NodeEndpoint], version: int) -> bytes:
    out = bytearray()
    write_uvarint(out, len(endpoints) + 1)
    for endpoint in endpoints:
        host = endpoint.host.encode()
        out += _I32.pack(endpoint.node_id)
        write_uvarint(out, len(host) + 1)
        out += host + _I32.pack(endpoint.port)
        if endpoint.rack is None:
            out.append(0)
        else:
            rack = endpoint.rack.encode()
            write_uvarint(out, len(rack) + 1)
            out += rack
        out.append(0)
    return bytes(out)


def _tags(out: bytearray, tags: list[tuple[int, bytes]]) -> None:
    write_uvarint(out, len(tags))
    for tag, value in tags:
        write_uvarint(out, tag)
        write_uvarint(out, len(value))
        out += value


def _length(out: bytearray, count: int, flexible: bool) -> None:
    """Append the length of an array or byte string; -1 is null."""
    if not flexible:
        out += _I32.pack(count)
    elif count < 0x7F:
        out.append(count + 1)  # As `write_uvarint` would, without the call: this is most of them.
    else:
        write_uvarint(out, count + 1)
