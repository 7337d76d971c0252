"""Logs of a group coordinator, and whether what the latest records come to is what all records come to: wherever the
log starts, wherever the high watermark stands, and wherever the state is made in between.

What a loaded coordinator tells of committed offsets is held against a plain reading of the log, too, which shares no
code with the coordinator: an offset of a transaction counts once its commit marker is there, and never after an abort
marker (KIP-98); until then whoever requires stable offsets is told to ask again (KIP-447).

`python -m tests.properties.coordinator_load --these SEED...` runs seeds, and says in a line of JSON what came of each.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import trio

from kraft.common.ids import TopicPartition
from kraft.coordinator import latest_records
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.group_records import (
    OFFSET_COMMIT,
    decode_offset_commit_value,
    empty_group_metadata,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)
from kraft.coordinator.group.group_shard import GroupShard
from kraft.coordinator.group.offsets.offset_fetch import fetch_offsets
from kraft.coordinator.group.shard_state import GroupShardState, OffsetAndMetadata
from kraft.coordinator.records.group_metadata_value import MemberMetadata
from kraft.coordinator.shard import LogRecord, Marker, Producer
from kraft.coordinator.shard_loader import load
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kraft.protocol.records.control_record import ControlRecordType, control_key
from kraft.world.steps import at_once
from tests.properties.seeds import run_seeds
from tests.unit.coordinator.fakes import (
    MemoryBatch,
    MemoryLog,
    PlainConsumerConfigs,
    PlainShareConfigs,
    PlainStreamsConfigs,
    Topics,
)

LOGS_A_SEED = 60
PARTITION = TopicPartition("__consumer_offsets", 0)
GROUPS = ("a", "b")
PLACES = (TopicPartition("t", 0), TopicPartition("t", 1))


class Told(NamedTuple):
    """What a group is told of one partition: its offset, -1 for none, and whether a transaction is about to change
    it."""

    offset: int
    is_stable: bool


def some_record(draw: random.Random) -> LogRecord:
    """A commit, a group, or a tombstone of one of them."""
    group_id = draw.choice(GROUPS)
    if draw.randrange(5):
        key = offset_commit_key(group_id, draw.choice(PLACES))
        value = offset_commit_value(OffsetAndMetadata(draw.randrange(1000), 1, "", 5))
    else:
        key, value = group_metadata_key(group_id), some_group(draw)
    return key, value if draw.randrange(5) else None


def some_group(draw: random.Random) -> bytes:
    value = empty_group_metadata(draw.randrange(10))
    for name in draw.sample("xyz", draw.randrange(3)):
        member = MemberMetadata(member_id=name, client_id="c", client_host="h", rebalance_timeout=1)
        member.session_timeout, member.assignment = draw.randrange(1, 4), name.encode()
        value.members.append(member)
        value.generation, value.protocol_type, value.protocol, value.leader = 1, "consumer", "range", name
    return group_metadata_value(value)


async def write_log(draw: random.Random) -> MemoryLog:
    """Batches outside of transactions, batches of two producers in transactions, and their markers."""
    log = MemoryLog()
    for _ in range(draw.randrange(1, 25)):
        producer_id = draw.choice((0, 0, 1, 2))
        producer = Producer(producer_id, 0) if producer_id else None
        if producer is not None and draw.randrange(2):
            await log.append(PARTITION, 1, Marker(producer_id, 0, 0, draw.random() < 0.6, 1), 0)
            continue
        log.open_transactions.add((PARTITION, producer_id))
        await log.append(PARTITION, 1, [some_record(draw) for _ in range(draw.randrange(1, 5))], 0, producer)
    log.starts[PARTITION] = draw.choice((0, draw.randrange(log.end_offset(PARTITION) + 1)))
    return log


def held(log: MemoryLog, end_offset: int) -> list[MemoryBatch]:
    """The batches up to `end_offset`: the first is whole, also where the log starts within it."""
    start = log.log_start_offset(PARTITION)
    return [batch for batch in log.batches[PARTITION] if start < batch.next_offset <= end_offset]


def replayed(shard: GroupShard, batches: Sequence[MemoryBatch]) -> GroupShardState:
    """The state after every record, one after the other."""
    state = shard.empty()
    for batch in batches:
        if batch.is_control:
            committed = batch.entries[0].key == control_key(ControlRecordType.COMMIT)
            state = shard.replay_marker(state, Marker(batch.producer_id, 0, 0, committed, 0))
            continue
        for entry in batch.entries:
            assert entry.key is not None
            state = shard.replay(state, entry.key, entry.value, batch.producer)
    return state


def read_plainly(batches: Sequence[MemoryBatch], group_id: str, place: TopicPartition) -> Told:
    """What the records say: the last offset that counts, in the order in which they were written."""
    key, told = offset_commit_key(group_id, place), Told(-1, True)
    for index, batch in enumerate(batches):
        is_committed = not batch.is_transactional or fate(batch.producer_id, batches[index + 1 :])
        for entry in batch.entries:
            if entry.key != key:
                continue
            if entry.value is None:
                told = Told(-1, True)
            elif is_committed is None:
                told = told._replace(is_stable=False)
            elif is_committed:
                told = told._replace(offset=decode_offset_commit_value(entry.value, OFFSET_COMMIT).offset)
    return told


def fate(producer_id: int, later: Sequence[MemoryBatch]) -> bool | None:
    """Whether the producer's transaction was committed; None while it is open."""
    for batch in later:
        if batch.is_control and batch.producer_id == producer_id:
            return batch.entries[0].key == control_key(ControlRecordType.COMMIT)
    return None


def asked(state: GroupShardState, group_id: str, place: TopicPartition) -> Told:
    """What OffsetFetch tells, without and with require_stable."""
    topic = OffsetFetchRequestTopics(name=place.topic, partition_indexes=[place.partition])
    request = OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
    answers = [
        at_once(fetch_offsets(state, request, lambda _: None, require_stable=stable)).topics[0].partitions[0]
        for stable in (False, True)
    ]
    offsets = [each.committed_offset for each in answers if each.error_code == ErrorCode.NONE]
    assert len(set(offsets)) == 1, f"without and with require_stable: {answers}"
    return Told(offsets[0], len(offsets) == len(answers))


def shown(state: GroupShardState) -> Any:
    """All of a state but `previous_state`, which the next change of a group sets before anybody looks at it."""
    groups = {}
    for group_id, group in state.groups.items():
        fields = {name: getattr(group, name) for name in group.__slots__ if name != "previous_state"}
        groups[group_id] = {
            name: list(value.items()) if isinstance(value, dict) else value for name, value in fields.items()
        }
    return groups, state.offsets, state.pending


def disagreement(draw: random.Random) -> str:
    """Where the loaded state of one log differs from that of every record; empty where it does not."""

    async def body() -> str:
        log, shard = (
            await write_log(draw),
            GroupShard(
                GroupCoordinatorConfig(), Topics(), PlainConsumerConfigs(), PlainShareConfigs(), PlainStreamsConfigs()
            ),
        )
        end = log.end_offset(PARTITION)
        start = log.log_start_offset(PARTITION)
        log.watermarks[PARTITION] = draw.choice([start, *(batch.next_offset for batch in held(log, end))])
        loaded = await load(shard, log, PARTITION)
        assert loaded.end_offset == end
        for offset, state in ((end, loaded.state), (log.watermarks[PARTITION], loaded.committed_state)):
            batches = held(log, offset)
            expected = replayed(shard, batches)
            if shown(state) != shown(expected):
                return f"of {batches}: {shown(expected)} loaded as {shown(state)}"
            for group_id, place in product(GROUPS, PLACES):
                plain, told = read_plainly(batches, group_id, place), asked(state, group_id, place)
                if told != plain:
                    return f"of {batches}: {group_id} is at {plain} of {place}, and is told {told}"
        return ""

    with patch.object(latest_records, "KEPT_MAX", draw.choice((1, 2, 5, 100_000))):
        return trio.run(body)


def violation_of(seed: int) -> str:
    """Empty where the law holds."""
    draw = random.Random(seed)
    violation = next(filter(None, (disagreement(draw) for _ in range(LOGS_A_SEED))), "")
    return f"coordinator load: {violation}" if violation else ""


if __name__ == "__main__":
    sys.exit(run_seeds("coordinator_load", __doc__, violation_of))
