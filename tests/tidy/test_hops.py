"""Requests cost no more calls, in no more files, than they did (tests/tidy/hops.py)."""

from __future__ import annotations

import pytest

from tests.tidy import hops


@pytest.mark.parametrize("name", hops.REQUESTS)
def test_a_request_makes_no_more_calls_through_no_more_files_than_before(name: str) -> None:
    found = hops.complaints(name, hops.figures(hops.measure(name)), hops.table()[name])
    assert not found, "\n" + "\n".join(found)


def test_the_table_names_the_measured_requests() -> None:
    assert list(hops.table()) == list(hops.REQUESTS)


def test_a_risen_count_and_an_unrecorded_lower_count_are_reported() -> None:
    allowed = {"calls": 90, "files": 20}
    assert hops.complaints("Produce", {"calls": 90, "files": 20}, allowed) == []
    assert hops.complaints("Produce", {"calls": 91, "files": 20}, allowed) == [
        "Produce costs 91 calls, at most 90 are allowed (python -m tests.tidy.hops 'Produce' lists them)"
    ]
    assert hops.complaints("Produce", {"calls": 90, "files": 19}, allowed) == [
        "Produce costs 19 files, and 20 are listed: run python -m tests.tidy.hops"
    ]


def test_lowering_the_table_never_raises_a_count() -> None:
    assert hops.lower({"calls": 90, "files": 20}, {"calls": 80, "files": 25}) == {"calls": 80, "files": 20}
