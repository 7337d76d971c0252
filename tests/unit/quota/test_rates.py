"""The measures that quotas are held against: laws of what a client gets that keeps to what it is told."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.quota.rates import TokenBucket, WindowedRate

SAMPLES, SAMPLE_SECONDS = 11, 1.0
SPAN = (SAMPLES - 1) * SAMPLE_SECONDS

limits = st.floats(0.1, 1e9, allow_nan=False)
uses = st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 50.0)), min_size=1, max_size=60)
"""(seconds before it, value as a share of the limit)."""


class PlainRate:
    """The same by keeping every value: samples are found anew each time."""

    def __init__(self) -> None:
        self.values: list[tuple[float, float]] = []

    def samples(self, now: float) -> list[list[float]]:
        """[start, last, sum] of those that count."""
        found: list[list[float]] = []
        for at, value in self.values:
            if not found or at - found[-1][0] >= SAMPLE_SECONDS:
                found.append([at, at, 0.0])
            found[-1][1] = at
            found[-1][2] += value
        return [each for each in found if each[1] > now - SAMPLES * SAMPLE_SECONDS]

    def seconds_over(self, limit: float, now: float) -> float:
        taken = self.samples(now)
        if not taken:
            return 0.0
        span = now - taken[0][0]
        span += max(0, SAMPLES - 1 - int(span / SAMPLE_SECONDS)) * SAMPLE_SECONDS
        total = sum(each[2] for each in taken)
        return max(0.0, (total / span - limit) / limit * span)


@given(limits, uses)
def test_a_rate_is_computed_from_all_values_in_its_samples(limit: float, history: list[tuple[float, float]]) -> None:
    rate, plain, now = WindowedRate(SAMPLES, SAMPLE_SECONDS), PlainRate(), 100.0
    for gap, share in history:
        now += gap
        rate.record(share * limit, now)
        plain.values.append((now, share * limit))
        assert rate.seconds_over(limit, now) == pytest.approx(plain.seconds_over(limit, now), abs=1e-6)
    later = now + SAMPLES * SAMPLE_SECONDS + 0.001
    assert rate.seconds_over(limit, later) == 0.0


@given(limits, st.floats(0.005, 1.0), st.floats(0.0, 0.02))
def test_a_client_at_full_speed_gets_its_limit_plus_one_span_at_the_start(
    limit: float, share: float, gap: float
) -> None:
    rate, now, total = WindowedRate(SAMPLES, SAMPLE_SECONDS), 0.0, 0.0
    while now < 60.0:
        rate.record(share * limit, now)
        total += share * limit
        now += gap + rate.seconds_over(limit, now)
        if not gap:
            now += 1e-6
    allowed = limit * (now + SPAN)
    fastest = share * limit * now / gap if gap else math.inf
    assert total <= allowed * 1.1
    assert total >= min(0.9 * (allowed - SPAN * limit), 0.99 * fastest)


@given(limits, st.floats(0.0, 1000.0))
def test_a_withdrawn_value_leaves_nothing(limit: float, share: float) -> None:
    rate = WindowedRate(SAMPLES, SAMPLE_SECONDS)
    rate.record(share * limit, 5.0)
    rate.record(-share * limit, 5.0)
    assert rate.seconds_over(limit, 5.0) == 0.0


def test_a_steady_client_at_its_limit_never_waits_and_one_at_twice_its_limit_waits_half_of_the_time() -> None:
    at_limit, above = WindowedRate(SAMPLES, SAMPLE_SECONDS), WindowedRate(SAMPLES, SAMPLE_SECONDS)
    for tick in range(1000):
        at_limit.record(9.8, tick / 10)
        assert at_limit.seconds_over(100.0, tick / 10) == 0.0
    now, sent = 0.0, 0.0
    while now < 200.0:
        above.record(20.0, now)
        sent += 20.0
        now += 0.1 + above.seconds_over(100.0, now)
    assert 100.0 * 200 * 0.95 <= sent <= 100.0 * (200 + SPAN + 1)


@given(limits, uses)
def test_a_bucket_allows_its_burst_and_then_the_limit(limit: float, history: list[tuple[float, float]]) -> None:
    bucket, now, total, largest = TokenBucket(limit, SPAN, 100.0), 100.0, 0.0, 0.0
    for gap, share in history:
        now += gap
        if bucket.seconds_short(limit, now) > 0:
            now += bucket.seconds_short(limit, now) * (1 + 1e-9)
            assert bucket.seconds_short(limit, now) == pytest.approx(0.0, abs=1e-6)
        bucket.take(share * limit, limit, now)
        total += share * limit
        largest = max(largest, share * limit)
        assert total <= (limit * (now - 100.0 + SPAN) + largest) * (1 + 1e-6)


def test_a_bucket_fills_up_to_its_burst_and_no_further() -> None:
    bucket = TokenBucket(2.0, 10.0, 0.0)
    bucket.take(20.0, 2.0, 1e6)
    assert bucket.seconds_short(2.0, 1e6) == 0.0
    bucket.take(1.0, 2.0, 1e6)
    assert math.isclose(bucket.seconds_short(2.0, 1e6), 0.5)
