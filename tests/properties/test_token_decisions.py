"""Signed tokens let in whom a model that reads their claims lets in."""

from __future__ import annotations

import random

from tests.properties.token_decisions import disagreement

SEEDS = 40


def test_who_is_let_in_by_a_token_is_whom_its_claims_name() -> None:
    assert [found for seed in range(SEEDS) if (found := disagreement(random.Random(seed)))] == []
