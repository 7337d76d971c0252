"""The authorizer decides as a model that reads the list of entries does, whatever changes between two questions."""

from __future__ import annotations

import os
import random

from tests.properties.access_decisions import disagreement

SEEDS = 4000 if os.environ.get("KRAFT_SOAK") == "1" else 40


def test_a_connections_access_follows_the_acls_and_the_login() -> None:
    assert [found for seed in range(SEEDS) if (found := disagreement(random.Random(seed)))] == []
