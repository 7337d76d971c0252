"""A follower's offset requests to its leader: start and end of the leader's log, local and remote, with their
epochs."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kraft.common.errors import ApiError
from kraft.common.listed_offsets import is_offset_answer
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kraft.replication.fetchers.following import Following, OffsetRequest
from kraft.rpc_client.connection import ClientConnection

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
LOCAL_START_VERSION: Final = 8
"""The first version of ListOffsets that knows EARLIEST_LOCAL (KIP-405)."""


class LocalStart(NamedTuple):
    """The start of a leader's local log. The leader has the records from `offset` on its disk, and the records from
    `log_start_offset` to `offset` in the remote tier only."""

    offset: int
    epoch_before: int
    """The epoch of the record before `offset`."""
    log_start_offset: int


async def leader_offset(
    connection: ClientConnection, following: Following, timestamp: int, asking: OffsetRequest
) -> int:
    """Return the end (LATEST) or the start (EARLIEST) of the leader's log, asked by ListOffsets as a replica.

    Raises ApiError, Disconnected, TimeoutError.
    """
    return (await _leader_position(connection, following, timestamp, asking))[0]


async def _leader_position(
    connection: ClientConnection, following: Following, timestamp: int, asking: OffsetRequest
) -> tuple[int, int]:
    """Return (offset, epoch of the offset)."""
    partition = following.partition
    wanted = ListOffsetsPartition(
        partition_index=partition.index, current_leader_epoch=following.leader_epoch, timestamp=timestamp
    )
    topics = [ListOffsetsTopic(name=partition.topic, partitions=[wanted])]
    request = ListOffsetsRequest(replica_id=asking.replica_id, isolation_level=0, topics=topics)
    version_max = max(asking.version_max, LOCAL_START_VERSION) if timestamp == EARLIEST_LOCAL else asking.version_max
    version = min(connection.version_of(ApiKey.LIST_OFFSETS), version_max)
    response: Any = await connection.call(request, version=version, timeout=asking.timeout_seconds)
    told = response.topics[0].partitions[0]
    if told.error_code:
        raise ApiError(told.error_code, f"{partition}: ListOffsets at the leader failed: {name_of(told.error_code)}")
    if not is_offset_answer(told.offset, timestamp):
        what = f"{partition}: ListOffsets at the leader returned the invalid offset {told.offset}"
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, what)
    return int(told.offset), int(told.leader_epoch)


async def leader_local_start(connection: ClientConnection, following: Following, asking: OffsetRequest) -> LocalStart:
    """Return the start of the leader's local log. Raises ApiError, Disconnected, TimeoutError."""
    offset, epoch = await _leader_position(connection, following, EARLIEST_LOCAL, asking)
    log_start_offset = await leader_offset(connection, following, EARLIEST, asking)
    if offset > 0:
        epoch = await _epoch_before(connection, following, offset, epoch, asking)
    return LocalStart(offset, epoch, log_start_offset)


async def _epoch_before(
    connection: ClientConnection, following: Following, offset: int, epoch: int, asking: OffsetRequest
) -> int:
    """Return the epoch of the record before `offset`. The record at `offset` has `epoch`."""
    partition = following.partition
    asked = OffsetForLeaderPartition(
        partition=partition.index, current_leader_epoch=following.leader_epoch, leader_epoch=epoch - 1
    )
    topics = [OffsetForLeaderTopic(topic=partition.topic, partitions=[asked])]
    response: Any = await connection.call(
        OffsetForLeaderEpochRequest(replica_id=asking.replica_id, topics=topics), timeout=asking.timeout_seconds
    )
    told = response.topics[0].partitions[0]
    if told.error_code:
        raise ApiError(
            told.error_code, f"{partition}: OffsetForLeaderEpoch at the leader failed: {name_of(told.error_code)}"
        )
    # An earlier epoch that ends at `offset` contains the record before it.
    return int(told.leader_epoch) if told.end_offset >= offset else epoch
