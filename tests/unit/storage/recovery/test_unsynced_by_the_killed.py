"""A process that is killed leaves what it had not synced in the page cache: the next one finds it, and must not take
it for durable."""

from __future__ import annotations

import pytest

from kraft.storage.checkpoints import read_partition_metadata
from kraft.storage.log_files import PARTITION_METADATA
from tests.unit.storage.support import DIRECTORY, NOW_MS, TOPIC_ID, Machine, batch_of, content


@pytest.mark.parametrize("seed", range(20))
def test_a_flush_makes_names_written_by_a_killed_process_durable(
    seed: int,
) -> None:
    """A log that has lost its id is set aside, records and all."""
    machine = Machine(seed)
    machine.log().append_as_leader(batch_of(b"a"), 0, now_ms=NOW_MS)
    machine.kill()
    log = machine.log()
    log.append_as_leader(batch_of(b"b"), 0, now_ms=NOW_MS)
    log.flush()
    machine.power_off()
    assert content(machine.log()) == [(0, None, b"a"), (1, None, b"b")]
    assert read_partition_metadata(machine.files, f"{DIRECTORY}/{PARTITION_METADATA}") == TOPIC_ID
