"""Signed tokens let in whom a model that reads their claims lets in."""

from __future__ import annotations

import random

from tests.properties.token_decisions import disagreement

SEEDS = 40


def test_the_principal_of_an_accepted_token_is_that_of_its_claims() -> None:
    assert [found for seed in range(SEEDS) if (found := disagreement(random.Random(seed)))] == []
