"""Asking a leader where its log begins and ends (ListOffsets as a replica)."""

from __future__ import annotations

from typing import Any, Final

from kraft.client.connection import ClientConnection
from kraft.common.errors import ApiError
from kraft.protocol.error_codes import name_of
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.replication.following import Following

LATEST: Final = -1
EARLIEST: Final = -2


async def leader_offset(
    connection: ClientConnection, following: Following, timestamp: int, replica_id: int, timeout: float
) -> int:
    """The leader's log end (LATEST) or start (EARLIEST). Raises ApiError, Disconnected, TimeoutError."""
    partition = following.partition
    wanted = ListOffsetsPartition(
        partition_index=partition.index, current_leader_epoch=following.leader_epoch, timestamp=timestamp
    )
    topics = [ListOffsetsTopic(name=partition.topic, partitions=[wanted])]
    request = ListOffsetsRequest(replica_id=replica_id, isolation_level=0, topics=topics)
    response: Any = await connection.call(request, timeout=timeout)
    told = response.topics[0].partitions[0]
    if told.error_code:
        raise ApiError(told.error_code, f"the leader's offsets: {name_of(told.error_code)}")
    return int(told.offset)
