"""Files and functions stay small: today's exceptions may shrink, nothing may grow (tests/tidy/ratchet.py)."""

from __future__ import annotations

from tests.tidy import ratchet
from tests.tidy.source import Module, product_modules


def test_no_file_or_function_has_grown_over_its_limit() -> None:
    found = list(ratchet.complaints(product_modules(), ratchet.exceptions()))
    assert not found, "\n" + "\n".join(found)


def function(lines: int, name: str = "long") -> str:
    return f"def {name}():\n" + "    '''Not counted.'''\n" + "    x = 1\n" * (lines - 1)


def complaints(text: str, table: dict[str, int]) -> list[str]:
    return list(ratchet.complaints([Module.of(text, "kraft/a.py")], table))


def test_a_long_function_is_caught() -> None:
    assert complaints(function(60), {}) == []
    assert complaints(function(61), {}) == [
        "kraft/a.py::long has 61 lines, at most 60 are allowed: split it (tests/tidy/ratchet.py)"
    ]
    assert (
        "kraft/a.py::A.f has 70 lines"
        in complaints("class A:\n" + "".join(f"    {line}\n" for line in function(70, "f").splitlines()), {})[0]
    )


def test_a_long_file_is_caught() -> None:
    assert complaints("x = 1\n" * 500, {}) == []
    assert "kraft/a.py has 501 lines" in complaints("x = 1\n" * 501, {})[0]


def test_a_listed_size_may_shrink_but_not_grow() -> None:
    assert complaints(function(80), {"kraft/a.py::long": 80}) == []
    assert complaints(function(70), {"kraft/a.py::long": 80}) == []
    assert "has 81 lines, at most 80" in complaints(function(81), {"kraft/a.py::long": 80})[0]


def test_an_entry_that_is_no_longer_needed_is_caught() -> None:
    assert "run python -m tests.tidy.ratchet" in complaints(function(60), {"kraft/a.py::long": 80})[0]
    assert "run python -m tests.tidy.ratchet" in complaints("", {"kraft/a.py::gone": 80})[0]


def test_lowering_the_list_never_raises_a_size_and_drops_unneeded_entries() -> None:
    modules = [Module.of(function(70) + function(90, "grown") + function(10, "short"), "kraft/a.py")]
    table = {"kraft/a.py::long": 80, "kraft/a.py::grown": 85, "kraft/a.py::short": 100, "kraft/a.py::gone": 110}
    assert ratchet.lower(modules, table) == {"kraft/a.py::grown": 85, "kraft/a.py::long": 70}


def test_generated_modules_are_not_measured() -> None:
    assert list(ratchet.complaints([Module.of(function(99), "kraft/protocol/messages/a.py")], {})) == []
