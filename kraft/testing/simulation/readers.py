"""Readers of a simulated run: some follow the end of a partition, and in the end one reads everything."""

from __future__ import annotations

import trio

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.records.record_batch import batches
from kraft.testing.simulation.history import History, Partition
from kraft.testing.simulation.producers import TRY_AGAIN
from kraft.testing.simulation.session import Refused, Session, Unanswered

FETCH_VERSIONS = (4, 12)  # By topic name.
LATEST = -1
PASSING = TRY_AGAIN | {ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE}


async def follow(session: Session, history: History, partition: Partition, stopping: trio.Event) -> None:
    """Read on and on, noting what is seen. Offsets have no gaps: nothing here is compacted or transactional."""
    position = 0
    while not stopping.is_set():
        for offset, value in await fetch(session, partition, position):
            if offset != position:
                history.violation(f"{session.name} expected offset {position} of {partition[0]}-{partition[1]} and got {offset}")
            history.saw(partition, offset, value, session.name)
            position = offset + 1
        await session.pause(0.1)
    session.close()


async def read_all(session: Session, partition: Partition) -> dict[int, str]:
    """The whole partition up to its present end."""
    end = await end_offset(session, partition)
    found: dict[int, str] = {}
    position = 0
    while position < end:
        for offset, value in await fetch(session, partition, position):
            found[offset] = value
            position = offset + 1
    return found


async def fetch(session: Session, partition: Partition, position: int) -> list[tuple[int, str]]:
    """Records from `position` on; none when there are none yet, or the node does not answer well."""
    topic, index = partition
    size = session.chance.choice((1, 1000, 1 << 20))
    wanted = FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=size)
    request = FetchRequest(max_wait_ms=200, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    try:
        response = await session.call(request, *FETCH_VERSIONS)
    except Unanswered:
        await session.pause(0.5)
        return []
    answer = response.responses[0].partitions[0]
    if answer.error_code in PASSING:
        await session.pause(0.5)
        return []
    if answer.error_code != ErrorCode.NONE:
        raise Refused(f"Fetch of {topic}-{index} at {position}", answer.error_code)
    found = []
    for batch in batches(answer.records or b"", partial_tail=True):
        batch.verify_crc()
        found += [(record.offset, bytes(record.value or b"").decode()) for record in batch.records() if record.offset >= position]
    return found


async def end_offset(session: Session, partition: Partition) -> int:
    """The partition's end, as soon as the node tells it."""
    topic, index = partition
    wanted = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    while True:
        try:
            response = await session.call(request, 1, 9)
        except Unanswered:
            await session.pause(0.5)
            continue
        answer = response.topics[0].partitions[0]
        if answer.error_code == ErrorCode.NONE:
            return int(answer.offset)
        if answer.error_code not in PASSING:
            raise Refused(f"ListOffsets of {topic}-{index}", answer.error_code)
        await session.pause(0.5)
