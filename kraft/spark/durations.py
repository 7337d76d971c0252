"""Spark's time strings (`15m`, `100 ms`), as `maxTriggerDelay` takes them."""

from __future__ import annotations

import re

UNITS_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration_ms(text: str) -> int:
    """Milliseconds; a bare number is milliseconds. Raises ValueError."""
    match = re.fullmatch(r"(-?\d+)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in UNITS_MS:
        raise ValueError(
            f"Expected a time as <number><unit> with one of the units us, ms, s, m, min, h, d, got '{text}'"
        )
    return int(int(match[1]) * UNITS_MS[match[2]])
