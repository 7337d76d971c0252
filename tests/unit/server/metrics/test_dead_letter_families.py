"""Counts of dead letters in a node's metrics."""

from __future__ import annotations

from kraft.common.metrics import MetricsRegistry, render_prometheus
from kraft.server.metrics.dead_letter_families import register_dead_letters
from kraft.server.share.dead_letter_writer import COUNTED_GROUPS_MAX, OTHER_GROUPS, DeadLetterCounts


def test_written_and_failed_letters_are_counted_by_group_and_groups_beyond_a_limit_together() -> None:
    counts, registry = DeadLetterCounts(), MetricsRegistry()
    register_dead_letters(registry, counts)
    for number in range(COUNTED_GROUPS_MAX + 5):
        counts.add(counts.written, f"g{number}", 2)
    counts.add(counts.written, "g7", 1)
    counts.add(counts.failed, "g1", 4)
    lines = "".join(render_prometheus(registry.families())).splitlines()
    assert 'kraft_share_dead_letters_written_total{group="g7"} 3' in lines
    assert f'kraft_share_dead_letters_written_total{{group="{OTHER_GROUPS}"}} 10' in lines
    assert 'kraft_share_dead_letters_failed_total{group="g1"} 4' in lines
    assert len(counts.written) == COUNTED_GROUPS_MAX + 1
