"""Averages, maxima and rates over the last 30 to 60 seconds, sampled like Kafka's metrics (two samples of 30
seconds)."""

from __future__ import annotations

from typing import Final

SAMPLES: Final = 2
SAMPLE_SECONDS: Final = 30.0


class _Sample:
    __slots__ = ("count", "maximum", "since", "total")

    def __init__(self, since: float) -> None:
        self.since = since
        self.count = 0
        self.total = 0.0
        self.maximum = 0.0


class Windowed:
    """Recently recorded values. Times are seconds of one clock."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: list[_Sample] = []

    def record(self, value: float, now: float) -> None:
        """Record a value, which must be at least 0."""
        samples = self._samples
        if not samples or now - samples[-1].since >= SAMPLE_SECONDS:
            samples.append(_Sample(now))
            del samples[:-SAMPLES]
        sample = samples[-1]
        sample.count += 1
        sample.total += value
        sample.maximum = max(sample.maximum, value)

    def average(self, now: float) -> float | None:
        """The average of recent values; None if there are none."""
        recent = self._recent(now)
        return sum(sample.total for sample in recent) / sum(sample.count for sample in recent) if recent else None

    def maximum(self, now: float) -> float | None:
        return max((sample.maximum for sample in self._recent(now)), default=None)

    def rate(self, now: float) -> float:
        """The sum of recent values per second. The elapsed time counts as at least one whole sample, so that a first
        value is not a burst."""
        recent = self._recent(now)
        if not recent:
            return 0.0
        elapsed = now - recent[0].since
        return sum(sample.total for sample in recent) / (
            elapsed if elapsed >= SAMPLE_SECONDS else elapsed + SAMPLE_SECONDS
        )

    def _recent(self, now: float) -> list[_Sample]:
        return [sample for sample in self._samples if now - sample.since < SAMPLES * SAMPLE_SECONDS]
