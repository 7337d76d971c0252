"""A complaint that is made again and again fills no log."""

from __future__ import annotations

from kraft.common.backed_off_log import SERIES_MAX, BackedOffLog
from kraft.common.logging import Loggers, LogLine


class HandClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return int(self.seconds * 1000)


def made() -> tuple[BackedOffLog, HandClock, list[LogLine]]:
    clock, lines = HandClock(), list[LogLine]()
    return BackedOffLog(Loggers(lines.append, clock).get("x"), clock), clock, lines


def test_the_first_line_is_immediate_and_repeats_back_off_to_a_minute() -> None:
    told, clock, lines = made()
    for _ in range(20 * 300):
        told.warning("refused", "full", reason="full")
        clock.seconds += 0.05
    times = [round(line["time_ms"] / 1000 - 100) for line in lines]
    assert times == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert [line.get("left_out") for line in lines[:3]] == [None, 20, 40]
    assert sum(line.get("left_out", 0) for line in lines) + len(lines) > 20 * 240
    assert {line["reason"] for line in lines} == {"full"}


def test_another_reason_is_logged_immediately() -> None:
    told, _, lines = made()
    for reason in ("full", "full", "fenced"):
        told.error("refused", reason, reason=reason)
    assert [line["reason"] for line in lines] == ["full", "fenced"]


def test_a_complaint_that_returns_is_logged_immediately_with_the_number_of_omitted_lines() -> None:
    told, clock, lines = made()
    for _ in range(3):
        told.info("refused", "full")
    clock.seconds += 600
    told.info("refused", "full")
    told.info("refused", "full")
    assert [line.get("left_out") for line in lines] == [None, 2]


def test_endless_complaints_use_bounded_memory() -> None:
    told, _, lines = made()
    for number in range(3 * SERIES_MAX):
        told.warning("refused", str(number))
    assert len(lines) == 3 * SERIES_MAX
    assert len(told._repetitions._series) == SERIES_MAX


def test_a_complaint_repeated_every_few_seconds_is_logged_at_growing_intervals() -> None:
    told, clock, lines = made()
    for _ in range(40):
        told.warning("put off", "disk")
        clock.seconds += 5
    assert [round(line["time_ms"] / 1000 - 100) for line in lines] == [0, 5, 10, 15, 25, 45, 80, 140]
