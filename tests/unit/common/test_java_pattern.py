"""What Java's regular expressions select among names of topics."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kraft.common.java_pattern import java_pattern

NAMES = ("flights", "Flights", "flights.2", "flights-eu", "flights_eu", "x", "7")


@pytest.mark.parametrize(
    ("pattern", "selected"),
    [
        (r"^\p{Lower}+$", "flights x"),
        (r"^\p{javaLowerCase}+$", "flights x"),
        (r"^\p{IsAlphabetic}+$", "flights Flights x"),
        (r"^\p{L}+\p{Punct}", "flights.2 flights-eu flights_eu"),
        (r"^\pL+\p{Pd}", "flights-eu"),
        (r"^\P{L}+$", "7"),
        (r"^[\p{Lower}&&[^x]]+$", "flights"),
        (r"^[a-z[A-Z]]{3,}$", "flights Flights"),
        (r"^[^\p{L}]$", "7"),
        (r"\Qs.\E", "flights.2"),
        (r"s[\Q._\E]", "flights.2 flights_eu"),
        (r"^\w\z", "x 7"),
        (r"^(?<a>.)\k<a>?l", "flights Flights flights.2 flights-eu flights_eu"),
        (r"(?i)^F", "flights Flights flights.2 flights-eu flights_eu"),
        (r"flights\x{2d}eu", "flights-eu"),
        (r"flights\x2Deu|\u0078", "flights-eu x"),
        (r"[.\-]", "flights.2 flights-eu"),
        (r"^[0-9-]$", "7"),
        (r"^fl?+ights\b$", "flights"),
    ],
)
def test_the_syntax_of_java_patterns_is_understood(pattern: str, selected: str) -> None:
    assert [name for name in NAMES if java_pattern(pattern).search(name)] == selected.split()


@pytest.mark.parametrize("pattern", ["[a-", "(", r"\p{Nonsense}", "*", r"\y", "[z-a]", "a\\"])
def test_an_invalid_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(ValueError, match="is not a regular expression"):
        java_pattern(pattern)


@example("[0||]", "|")
@given(st.text("abz019-_.^$|()[]{}*+?", max_size=8), st.text("abz019-_.", max_size=6))
def test_syntax_common_to_both_languages_has_the_same_meaning(pattern: str, name: str) -> None:
    if re.search(r"\[\^?\]|\[[^\]]*\[|&&|--|\|\|", pattern) or "{" in pattern:
        return  # Where they differ by design, or Python warns of a set operation to come.
    try:
        expected = re.compile(pattern, re.ASCII)
    except re.error:
        return
    assert bool(java_pattern(pattern).search(name)) == bool(expected.search(name))


def test_a_quoted_literal_matches_itself() -> None:
    for name in NAMES:
        assert [each for each in NAMES if java_pattern(rf"^\Q{name}\E$").search(each)] == [name]
