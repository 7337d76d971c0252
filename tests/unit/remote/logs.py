"""Facts of logs for tests."""

from __future__ import annotations

from itertools import pairwise

from kraft.remote.log_facts import LocalSegment, LogFacts


def log(
    *bounds: int,
    epochs: dict[int, int] | None = None,
    start: int = 0,
    stable: int | None = None,
    size: int = 100,
    timestamps: tuple[int, ...] = (),
) -> LogFacts:
    """A log with local segments between neighbouring `bounds`, the last of which is its end."""
    pairs = list(pairwise(bounds))
    return LogFacts(
        segments=[
            LocalSegment(
                base_offset=first,
                end_offset=end,
                size=size,
                timestamp_ms=timestamps[index] if timestamps else 0,
            )
            for index, (first, end) in enumerate(pairs)
        ],
        leader_epochs=tuple(sorted(({0: start} if epochs is None else epochs).items())),
        log_start_offset=start,
        last_stable_offset=bounds[-1] if stable is None else stable,
    )
