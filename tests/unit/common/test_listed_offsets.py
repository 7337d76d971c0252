"""Which numbers are taken as the answer to a question about offsets."""

from __future__ import annotations

import pytest

from kraft.common.listed_offsets import is_offset_answer

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
TIME = 1_700_000_000_000


@pytest.mark.parametrize("asked", [LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, 0, TIME])
def test_an_offset_is_a_valid_answer_to_every_lookup(asked: int) -> None:
    assert is_offset_answer(0, asked)
    assert is_offset_answer(2**63 - 1, asked)


@pytest.mark.parametrize("asked", [LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, 0, TIME])
@pytest.mark.parametrize("told", [-1001, -1000, -2])
def test_a_negative_number_is_no_valid_answer(asked: int, told: int) -> None:
    assert not is_offset_answer(told, asked)


@pytest.mark.parametrize(
    ("asked", "answers"),
    [(0, True), (TIME, True), (MAX_TIMESTAMP, True), (LATEST_TIERED, True), (LATEST, False), (EARLIEST, False)],
)
def test_minus_one_is_a_valid_answer_only_for_a_record_that_may_not_exist(asked: int, answers: bool) -> None:
    assert is_offset_answer(-1, asked) is answers
