"""The log against a list: random operations, deaths at any file call, power losses; what was promised is there and
nothing else."""

from __future__ import annotations

import os

import pytest

from tests.properties.storage_machine import run_life

SEEDS = 2000 if os.environ.get("KRAFT_SOAK") else 120


@pytest.mark.parametrize("block", range(10))
def test_a_log_keeps_its_acknowledged_records_through_any_crash(block: int) -> None:
    lives = sum(run_life(seed, 80).lives for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10))
    assert lives > SEEDS // 10
