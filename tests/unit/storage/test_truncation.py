"""What the disk must not say of a log that is about to be cut is taken back, once."""

from __future__ import annotations

import pytest

from kraft.storage.log_files import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kraft.storage.truncation import checkpoint_before_truncation
from kraft.world.simulated.files import SimulatedFileSystem
from tests.unit.storage.managed_logs import log_from_35_to_40, manager_on
from tests.unit.storage.support import Machine


@pytest.mark.parametrize(("offset", "knows_start"), [(3, True), (20, True), (37, True), (20, False)])
def test_a_truncation_writes_each_of_both_checkpoints_once(
    monkeypatch: pytest.MonkeyPatch, offset: int, knows_start: bool
) -> None:
    machine = Machine()
    manager = manager_on(machine)
    log = log_from_35_to_40(manager)
    if knows_start:
        manager.checkpoint_all()
    renamed: list[str] = []
    rename = SimulatedFileSystem.rename

    def counted(files: SimulatedFileSystem, source: str, target: str) -> None:
        renamed.append(target)
        rename(files, source, target)

    monkeypatch.setattr(SimulatedFileSystem, "rename", counted)
    checkpoint_before_truncation(manager.directory_of(log), log, offset)
    assert sorted(renamed) == sorted(
        f"/data/{name}" for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT)
    )
