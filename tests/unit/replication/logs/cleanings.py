"""Cleanings of the topic t of a broker, as often as it takes until what has ended is gone."""

from __future__ import annotations

from kraft.common.ids import TopicPartition
from kraft.protocol.records.control_record import ControlRecordType
from kraft.world.steps import at_once
from tests.unit.server.brokers import Broker
from tests.unit.storage.producers.producer_batches import end
from tests.unit.storage.recovery.transactional_log import produce

T0 = TopicPartition("t", 0)
EAGER = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "0"}
CLEANINGS = 4
"""After the first an aborted record is gone, after the second its marker may go, after the third it is gone."""


def clean(made: Broker) -> int:
    """Close the active segment and clean what is due, several times; how many cleanings there were."""
    cleaner, now_ms, done = made.server.log_tasks.cleaner.manager, made.world.clock.wall_ms(), 0
    log = made.logs.get(T0)
    assert log is not None
    producer_id = 10 + log.log_end_offset
    for number in range(CLEANINGS):
        produce(log, number, producer_id=producer_id)
        end(log, ControlRecordType.COMMIT, producer_id=producer_id)
        log.roll(now_ms)
        log.flush()
        log.update_high_watermark(log.log_end_offset)
        candidate = cleaner.next_log(now_ms)
        if candidate is not None:
            at_once(cleaner.clean(candidate, now_ms))
            done += 1
    return done
