"""Groups that change between the classic and the consumer protocol keep their laws (`migrating_group.py`)."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft.coordinator.group.config import MigrationPolicy
from tests.properties.migrating_group import STEPS, MigratingLife, broken_law, run_life

EXAMPLES = 2000 if os.environ.get("KRAFT_SOAK") else 60

relaxed = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@relaxed
@given(st.integers(0, 2**32 - 1), st.sampled_from(MigrationPolicy))
def test_members_of_both_protocols_never_share_a_partition(seed: int, policy: MigrationPolicy) -> None:
    run_life(seed, policy)


def test_generated_histories_include_groups_of_every_kind() -> None:
    kinds: set[str] = set()
    for seed in range(10):
        life = MigratingLife(seed)
        for _ in range(STEPS):
            life.step()
        kinds |= life.kinds
    assert kinds == {"classic", "mixed", "consumer"}


@pytest.mark.parametrize("seed", [1, 22471])
def test_seeds_of_mutants_and_of_former_defects_violate_no_invariant(seed: int) -> None:
    """In 22471 a client that the group had forgotten joined with partitions that others had."""
    assert broken_law(seed) == ""
