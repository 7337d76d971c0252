"""The law of a coordinator's load: what the latest records come to is what all records come to."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.coordinator_load import LOGS_A_SEED, disagreement


@given(st.randoms(use_true_random=False))
def test_replaying_the_latest_records_equals_replaying_all_records(draw: random.Random) -> None:
    assert disagreement(draw) == ""


def test_many_logs_of_one_seed_load_to_the_same_state() -> None:
    draw = random.Random(1)
    assert [found for found in (disagreement(draw) for _ in range(5 * LOGS_A_SEED)) if found] == []
