"""What ends a transaction or a key stays in a compacted log until every replica has it, however long that takes."""

from __future__ import annotations

import pytest

from kraft.protocol.records.control_record import ControlRecordType
from kraft.protocol.records.record_batch import batches
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated import Universe
from tests.unit.replication.logs.cleanings import CLEANINGS, EAGER, clean
from tests.unit.server.brokers import NODE, batch, broker, simulate
from tests.unit.storage.producers.producer_batches import end
from tests.unit.storage.recovery.transactional_log import produce
from tests.unit.storage.support import content


def markers(log: UnifiedLog) -> list[int]:
    """Offsets of those below 5 that are in the log."""
    found = batches(log.read(0, 1 << 20).read())
    return [batch.base_offset for batch in found if batch.is_control and batch.count and batch.base_offset < 5]


def tombstones(log: UnifiedLog) -> list[bytes | None]:
    return [key for _, key, value in content(log) if value is None]


@pytest.mark.parametrize("left", ["fell behind", "is new"])
def test_markers_and_tombstones_are_kept_while_a_replica_lacks_them(left: str) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            replicas = [NODE, 2] if left == "fell behind" else [NODE]
            topic_id = made.topic("t", replicas=replicas, **EAGER)
            log, now = made.partition("t").log, made.world.clock.wall_ms()
            produce(log, 0)
            end(log, ControlRecordType.ABORT)
            produce(log, 1)
            end(log, ControlRecordType.COMMIT)
            log.append_as_leader(batch(None, key=b"gone", timestamp_ms=now), 0, now_ms=now)
            if left == "fell behind":
                made.change(topic_id, isr=[NODE])
            else:
                made.change(topic_id, replicas=[NODE, 2], adding_replicas=[2])
            assert clean(made) == CLEANINGS
            assert tombstones(log) == [b"gone"]
            assert markers(log) == [1, 3]
            made.change(topic_id, isr=[NODE, 2])
            assert clean(made) == CLEANINGS
            assert tombstones(log) == []
            assert 1 not in markers(log)

    simulate(play)
