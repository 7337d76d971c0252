"""Each operation of a coordinator is read back whole or not at all (`whole_operations`)."""

from __future__ import annotations

import os

import pytest

from tests.properties.whole_operations import live

SEEDS = 200 if os.environ.get("KRAFT_SOAK") else 10


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_truncation_at_any_offset_each_operation_is_read_completely_or_not_at_all(seed: int) -> None:
    live(seed)
