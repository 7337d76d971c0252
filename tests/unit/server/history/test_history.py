"""Rings of the last hour, and how those of several nodes come together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.server.history import history
from kraft.server.history.history import SAMPLES_MAX, STEP_SECONDS, History, TopicCounts, merged

STEP_MS = STEP_SECONDS * 1000


def filled(count: int) -> History:
    made = History()
    for number in range(count):
        counts = TopicCounts(number * 10, number * 100, 0)
        made.take(number * STEP_MS, 10.0, {"busy": number / 1000}, {"t": counts}, {"g": number})
    return made


@given(st.integers(0, 3 * SAMPLES_MAX))
def test_the_last_hour_of_samples_is_returned_in_order(count: int) -> None:
    made = filled(count)
    last = list(range(max(0, count - SAMPLES_MAX), count))
    assert made.of_node()["times_ms"] == [number * STEP_MS for number in last]
    if count > 1:
        assert made.of_node()["series"] == {"busy": [number / 1000 for number in last]}
        assert made.of_topic("t")["series"] == {
            "records_in": [float(number) for number in last],
            "bytes_in": [number * 10.0 for number in last],
            "bytes_out": [0.0] * len(last),
        }
        assert made.of_group("g")["series"] == {"lag": [float(number) for number in last]}


def test_an_unknown_value_has_no_series() -> None:
    made = filled(3)
    assert made.of_topic("other")["series"] == made.of_group("other")["series"] == {}
    assert len(made.of_topic("other")["times_ms"]) == 3


def test_a_series_is_zero_before_its_first_and_after_its_last_value() -> None:
    made = History()
    made.take(0, 10, {}, {}, {})
    made.take(STEP_MS, 10, {}, {"t": TopicCounts(10, 20, 30)}, {"g": 5})
    made.take(2 * STEP_MS, 10, {}, {}, {})
    assert made.of_topic("t")["series"]["bytes_out"] == [0, 3, 0]
    assert made.of_group("g")["series"]["lag"] == [0, 5, 0]


def test_the_least_active_series_are_dropped_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "TOPICS_MAX", 2)
    monkeypatch.setattr(history, "GROUPS_MAX", 1)
    made = History()
    topics = {name: TopicCounts(done, 0, 0) for name, done in (("a", 5), ("b", 1), ("c", 9), ("idle", 0))}
    made.take(0, 10, {}, topics, {"near": 1, "far": 2, "at the end": 0})
    assert [name for name in ("a", "b", "c", "idle") if made.of_topic(name)["series"]] == ["a", "c"]
    assert [name for name in ("near", "far", "at the end") if made.of_group(name)["series"]] == ["far"]


def test_a_series_without_activity_for_an_hour_is_dropped() -> None:
    made = History()
    made.take(0, 10, {}, {"t": TopicCounts(1, 1, 1)}, {"g": 1})
    for number in range(1, 2 * SAMPLES_MAX):
        made.take(number * STEP_MS, 10, {}, {"t": TopicCounts(0, 0, 0)}, {"g": 0})
    assert made.of_topic("t")["series"] == made.of_group("g")["series"] == {}


def test_samples_of_nodes_are_summed_by_time() -> None:
    one: dict[str, Any] = {"times_ms": [10_001, 20_000], "series": {"in": [1.0, 2.0]}}
    two: dict[str, Any] = {"times_ms": [20_003, 30_000], "series": {"in": [10.0, 20.0], "out": [5.0, 6.0]}}
    assert merged([one, two]) == {
        "times_ms": [10_000, 20_000, 30_000],
        "series": {"in": [1.0, 12.0, 20.0], "out": [0.0, 5.0, 6.0]},
    }
    assert merged([]) == {"times_ms": [], "series": {}}


def test_only_retained_groups_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are behind: a ring is made for those that are furthest."""
    monkeypatch.setattr(history, "GROUPS_MAX", 10)
    rings: list[history.Ring] = []

    class Counted(history.Ring):
        def __init__(self) -> None:
            super().__init__()
            rings.append(self)

    monkeypatch.setattr(history, "Ring", Counted)
    made, lags = History(), {f"g{number:04d}": number for number in range(1000)}
    made.take(0, 10, {}, {}, lags)
    assert len(rings) == 10
    made.take(STEP_MS, 10, {}, {}, lags)
    assert len(rings) <= 2 * 10
    assert made.of_group("g0999")["series"] == {"lag": [999, 999]}
    assert made.of_group("g0989")["series"] == {}
