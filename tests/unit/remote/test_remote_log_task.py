"""A leader's rounds bring the sealed segments of a real log into the remote tier, and out of it again."""

from __future__ import annotations

import pytest

from kraft.protocol.records.record_batch import batches
from kraft.remote.local_files import facts_of
from kraft.remote.log_facts import copied_end_offset
from kraft.remote.object_names import OBJECT_SUFFIXES, object_name
from kraft.remote.remote_log_task import RemoteLogTask
from kraft.remote.remote_retention import RemoteRetention
from kraft.remote.segment_copies import CopyFailed
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated import SimulatedWorld, Universe
from kraft.world.steps import at_once
from kraft.world.turns import in_turns
from tests.unit.remote.local_store import roll
from tests.unit.remote.support import PARTITION
from tests.unit.remote.tier import Broker, Topic, in_a_life, run
from tests.unit.storage.recovery.transactional_log import write
from tests.unit.storage.support import NOW_MS, T0, TOPIC_ID, batch_of

EVERYTHING = RemoteRetention(retention_ms=-1, retention_bytes=-1)
ENDS = [6, 8, 9]
"""Where the sealed segments of the log end."""


def opened(world: SimulatedWorld) -> UnifiedLog:
    log = at_once(UnifiedLog.open(world.files, "/data/t-0", T0, LogConfig(), now_ms=NOW_MS, topic_id=TOPIC_ID))
    log.update_high_watermark(log.log_end_offset)
    return log


def fill(world: SimulatedWorld) -> UnifiedLog:
    """Three sealed segments, the first with transactions, of the epochs 0 and 2; one active of epoch 3."""
    world.files.make_directories("/data/t-0")
    log = opened(world)
    write(log)
    roll(log)
    log.append_as_leader(batch_of(b"a", b"b", timestamp=NOW_MS), 0, now_ms=NOW_MS)
    roll(log)
    log.append_as_leader(batch_of(b"c", timestamp=NOW_MS), 2, now_ms=NOW_MS)
    roll(log)
    log.append_as_leader(batch_of(b"z", timestamp=NOW_MS), 3, now_ms=NOW_MS)
    log.close()
    return log


def check_log(topic: Topic, finished: RemoteLogSegmentMetadata) -> None:
    """Every object is there, and the records are those of its offsets."""
    stored = [suffix for suffix in OBJECT_SUFFIXES if object_name(finished, suffix) in topic.server.objects]
    assert stored == [each for each in OBJECT_SUFFIXES if each != ".txnindex" or not finished.txn_index_is_empty]
    content = topic.server.objects[object_name(finished, ".log")]
    assert len(content) == finished.size
    found = list(batches(content))
    for batch in found:
        batch.verify_crc()
    assert (found[0].base_offset, found[-1].next_offset - 1) == (finished.start_offset, finished.last_offset)


class Leader:
    """A broker that leads the partition in epoch 3."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.log = opened(broker.world)
        self.starts: list[int] = []
        self.task = RemoteLogTask(
            broker.world,
            self.log,
            broker.remote,
            broker.cache,
            PARTITION,
            broker_id=1,
            leader_epoch=3,
            advance_log_start=self.advance,
            drive=in_turns,
        )

    async def advance(self, offset: int) -> None:
        self.starts.append(offset)
        self.log.delete_records_before(offset)

    async def work(self) -> None:
        await self.broker.log.catch_up()
        await self.task.expire(EVERYTHING)
        await self.task.copy()


async def work(broker: Broker) -> None:
    await Leader(broker).work()


def test_every_sealed_segment_is_copied_and_expires_with_its_objects() -> None:
    async def main(universe: Universe, topic: Topic) -> None:
        topic.check_whole = check_log
        fill(universe.world_for(1))

        async def body(broker: Broker) -> None:
            leader = Leader(broker)
            assert await leader.task.expire(EVERYTHING) == []
            copied = await leader.task.copy()
            assert [each.last_offset + 1 for each in copied] == ENDS
            assert [each.leader_epochs for each in copied] == [((0, 0),), ((0, 6),), ((2, 8),)]
            assert [each.txn_index_is_empty for each in copied] == [False, True, True]
            assert copied_end_offset(facts_of(leader.log), broker.cache) == 9
            assert await leader.task.copy() == []
            kept = RemoteRetention(retention_ms=-1, retention_bytes=leader.log.size - copied[0].size)
            assert [(each.segment_id, why) for each, why in await leader.task.expire(kept)] == [
                (copied[0].segment_id, "retention breach")
            ]
            assert (leader.starts, leader.log.log_start_offset) == ([6], 6)
            assert [each.start_offset for each in broker.cache.segments()] == [6, 8]
            assert len(topic.server.objects) == 10

        assert await in_a_life(universe, topic, body)

    run(0, main)


def test_the_next_leader_finishes_the_work_of_a_leader_that_died_at_any_step() -> None:
    ends = []

    async def main(universe: Universe, topic: Topic) -> None:
        topic.check_whole = check_log
        fill(universe.world_for(1))
        ends.append(await in_a_life(universe, topic, work, calls))
        universe.kill(1)
        await universe.sleep(60.0)
        assert await in_a_life(universe, topic, work)
        cache = topic.reader()
        assert [each.last_offset + 1 for each in cache.segments()] == ENDS
        assert all(each.is_finished for each in cache.segments())
        assert len(topic.server.objects) == 16

    for calls in range(0, 400, 3):
        run(calls, main)
    assert (ends[0], ends[-1]) == (False, True)
    assert ends == sorted(ends)


def test_a_deposed_leader_copies_no_more_segments() -> None:
    async def main(universe: Universe, topic: Topic) -> None:
        topic.check_whole = check_log
        fill(universe.world_for(1))

        async def body(broker: Broker) -> None:
            broker.leads = False
            with pytest.raises(CopyFailed, match="leads no more"):
                await work(broker)
            assert topic.records == []

        assert await in_a_life(universe, topic, body)

    run(0, main)
