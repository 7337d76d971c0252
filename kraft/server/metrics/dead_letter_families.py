"""Metrics of the dead letters of share groups, as this node writes them."""

from __future__ import annotations

from kraft.common.metrics import MetricsRegistry
from kraft.server.share.dead_letter_writer import DeadLetterCounts


def register_dead_letters(registry: MetricsRegistry, counts: DeadLetterCounts) -> None:
    registry.counters(
        "kraft_share_dead_letters_written_total",
        "Dead letters of share groups that this node has written.",
        ("group",),
        lambda: [((group,), count) for group, count in counts.written.items()],
    )
    registry.counters(
        "kraft_share_dead_letters_failed_total",
        "Dead letters of share groups that this node could not write. The log names their records.",
        ("group",),
        lambda: [((group,), count) for group, count in counts.failed.items()],
    )
