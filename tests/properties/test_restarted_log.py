"""Stop or kill, the restarted node answers every read alike (`restarted_log`)."""

from __future__ import annotations

import os

import pytest

from tests.properties.restarted_log import STEPS, RestartedLog

SEEDS = 3000 if os.environ.get("KRAFT_SOAK") else 200


@pytest.mark.parametrize("block", range(10))
def test_a_restarted_log_answers_as_before(block: int) -> None:
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        RestartedLog(seed).live(STEPS)
