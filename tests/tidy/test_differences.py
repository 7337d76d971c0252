"""Each documented difference from Apache Kafka is shown: by vectors, or by the tests that its entry names."""

from __future__ import annotations

import ast
import re

import pytest

from tests.tidy.source import ROOT
from tests.vectors.differences import BEYOND_VECTORS, Documented


def missing(node_id: str) -> str | None:
    """Why there is no such test, or None. A case of a parametrized test may be a file beside it."""
    path, _, name = node_id.partition("::")
    function, case = re.fullmatch(r"(\w+)(?:\[(.+)\])?", name).groups()  # type: ignore[union-attr]  # Every name matches.
    file = ROOT / path
    if not file.is_file():
        return f"no file {path}"
    tests = [each.name for each in ast.parse(file.read_text()).body if isinstance(each, ast.FunctionDef)]
    if not function.startswith("test_") or function not in tests:
        return f"no test {function} in {path}"
    if case is not None and not (file.parent / f"{case}.txt").is_file():
        return f"no case {case} of {function}"
    return None


@pytest.mark.parametrize("difference", BEYOND_VECTORS, ids=lambda each: each.name)
def test_a_documented_difference_names_tests_that_show_it(difference: Documented) -> None:
    assert difference.tests, "name a test that shows how our side behaves"
    assert [problem for each in difference.tests if (problem := missing(each))] == []


def test_a_test_that_is_not_there_is_missed() -> None:
    here = "tests/tidy/test_differences.py"
    assert missing(f"{here}::test_a_test_that_is_not_there_is_missed") is None
    assert missing("tests/tidy/test_nowhere.py::test_x") == "no file tests/tidy/test_nowhere.py"
    assert missing(f"{here}::test_nothing") == f"no test test_nothing in {here}"
    assert missing(f"{here}::missing") == f"no test missing in {here}"
    scenarios = "tests/scenarios/groups/test_groups.py::test_scenario"
    assert missing(f"{scenarios}[simple_group]") is None
    assert missing(f"{scenarios}[no_group]") == "no case no_group of test_scenario"
