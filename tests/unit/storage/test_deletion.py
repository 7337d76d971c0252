"""Files that wait until they may be removed: each for its own time."""

from __future__ import annotations

from kraft.storage.checkpoints import write_file
from kraft.storage.deletion import DelayedDeletions
from tests.unit.storage.support import NOW_MS, Machine

DAY_MS = 86_400_000


def due(deletions: DelayedDeletions, machine: Machine, after_ms: int) -> list[str]:
    job = deletions.take_due(machine.files, NOW_MS + after_ms)
    if job is None:
        return []
    job.run()
    return list(job.paths)


def test_a_deletion_with_a_long_delay_does_not_hold_up_other_deletions() -> None:
    machine, deletions = Machine(), DelayedDeletions()
    delays = {"/data/long": 30 * DAY_MS, "/data/short": 60_000, "/data/shorter": 1000, "/data/as-short": 60_000}
    for path, delay_ms in delays.items():
        write_file(machine.files, path, b"")
        deletions.add([path], NOW_MS + delay_ms)
    assert due(deletions, machine, 999) == []
    assert due(deletions, machine, 1000) == ["/data/shorter"]
    assert sorted(due(deletions, machine, 60_000)) == ["/data/as-short", "/data/short"]
    assert (due(deletions, machine, DAY_MS), len(deletions)) == ([], 1)
    assert [path for path in delays if machine.files.exists(path)] == ["/data/long"]
    assert due(deletions, machine, 30 * DAY_MS) == ["/data/long"]


def test_forgetting_a_directory_keeps_the_order_of_the_remaining_deletions() -> None:
    machine, deletions = Machine(), DelayedDeletions()
    for index in range(9):
        deletions.add([f"/{'lost' if index % 2 else 'data'}/{index}"], NOW_MS + 1000 * (9 - index))
    deletions.forget_directory("/lost")
    assert [due(deletions, machine, 1000 * seconds) for seconds in (1, 2, 3, 9)] == [
        ["/data/8"],
        [],
        ["/data/6"],
        ["/data/4", "/data/2", "/data/0"],
    ]
