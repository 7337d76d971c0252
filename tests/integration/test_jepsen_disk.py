"""The disk that jepsen breaks is honest: what a sync said is stored outlives a loss of power, up to the sync that
fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.disk import Disk
from tests.capabilities import require_capability

RECORD = 259  # No divisor of a page, so that most pages begin within a record.
SYNCS = 4200
"""So many that the journal has been written all over: after that only new pages of the file need room."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    for capability in ("root", "loop mounts"):
        require_capability(capability)
    made = Disk(tmp_path)
    try:
        yield made
    finally:
        made.discard()


def append_synced(file: int, number: int) -> None:
    os.write(file, number.to_bytes(RECORD, "big"))
    os.fdatasync(file)


@pytest.mark.soak
def test_records_synced_before_a_failed_sync_survive_a_power_loss(disk: Disk) -> None:
    path = disk.mount_point / "log"
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        for number in range(SYNCS):
            append_synced(file, number)
        disk.break_writes()
        acknowledged = SYNCS
        with pytest.raises(OSError, match=r"No space left|Input/output error"):
            while True:
                append_synced(file, acknowledged)
                acknowledged += 1
        assert disk.has_refused()
    finally:
        disk.mend_writes()
        disk.lose_power()
        os.close(file)
    disk.remount()
    expected = b"".join(number.to_bytes(RECORD, "big") for number in range(acknowledged))
    assert path.read_bytes()[: len(expected)] == expected
