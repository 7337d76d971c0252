"""kraft/raft/append_batches.py: what the state machine appends, as it stands on disk."""

from __future__ import annotations

import pytest

from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.raft.append_batches import Appended, encode_batch
from kraft.raft.core.log_state import Batch


@pytest.mark.parametrize("sizes", [(3,), (0, 63, 64, 8191, 8192), tuple(range(100)) * 100])
def test_a_batch_encodes_its_values_from_its_base_offset(sizes: tuple[int, ...]) -> None:
    values = tuple(bytes(size) for size in sizes)
    records = [Record(70 + index, 1234, None, value) for index, value in enumerate(values)]
    batch = Batch(70, 69 + len(values), 5, Appended(values, 1234))
    assert encode_batch(batch, 99) == build_batch(records, leader_epoch=5)
