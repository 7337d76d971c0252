"""A disk is slow when its syncs take long again and again, or when one does not end."""

from __future__ import annotations

from kraft.common.disk_times import SLOW_MIN, WINDOW_SECONDS, DiskTimes, SlowDisk


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds


def synced(disks: DiskTimes, clock: Clock, path: str, *durations: float) -> None:
    for seconds in durations:
        with disks.measure(path):
            clock.seconds += seconds


def test_a_disk_with_repeated_syncs_over_a_second_is_slow() -> None:
    clock = Clock()
    disks = DiskTimes(clock)
    synced(disks, clock, "/slow", *[1.5] * (SLOW_MIN - 1), 0.1, 2.0)
    synced(disks, clock, "/fast", *[0.5] * 20)
    assert disks.slow() == [SlowDisk("/slow", 2.0, SLOW_MIN, SLOW_MIN + 1)]


def test_one_burst_does_not_make_a_disk_slow() -> None:
    clock = Clock()
    disks = DiskTimes(clock)
    synced(disks, clock, "/d", 9.0, 0.1, 0.1)
    assert disks.slow() == []


def test_a_recovered_disk_is_no_longer_slow() -> None:
    clock = Clock()
    disks = DiskTimes(clock)
    synced(disks, clock, "/d", *[2.0] * 5)
    clock.seconds += WINDOW_SECONDS
    synced(disks, clock, "/d", 0.1)
    assert disks.slow() == []


def test_a_hanging_sync_is_reported_while_it_runs() -> None:
    clock = Clock()
    disks = DiskTimes(clock)
    with disks.measure("/d"):
        clock.seconds += 9.0
        assert disks.slow() == []
        clock.seconds += 30.0
        assert disks.slow() == [SlowDisk("/d", 39.0, 1, 1)]
