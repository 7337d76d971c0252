"""The law of a coordinator's load: what the latest records come to is what all records come to."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.coordinator_load import LOGS_A_SEED, disagreement


@given(st.randoms(use_true_random=False))
def test_the_latest_records_come_to_what_all_records_come_to(draw: random.Random) -> None:
    assert disagreement(draw) == ""


def test_many_logs_of_one_seed() -> None:
    draw = random.Random(1)
    assert [found for found in (disagreement(draw) for _ in range(5 * LOGS_A_SEED)) if found] == []
