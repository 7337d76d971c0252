"""Stop, kill or power loss, the restarted node answers every read API alike (`restarted_node`)."""

from __future__ import annotations

import os

import pytest

from tests.properties.restarted_node import RestartedNode

SEEDS = 3000 if os.environ.get("KRAFT_SOAK") else 200


@pytest.mark.parametrize("block", range(10))
def test_a_restarted_node_answers_as_before(block: int) -> None:
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        RestartedNode(seed).live()
