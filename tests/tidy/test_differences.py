"""Each documented difference from Apache Kafka is shown: by vectors, or by the tests that its entry names."""

from __future__ import annotations

import pytest

from tests.named_tests import missing_test
from tests.vectors.differences import BEYOND_VECTORS, Documented


@pytest.mark.parametrize("difference", BEYOND_VECTORS, ids=lambda each: each.name)
def test_a_documented_difference_names_tests_that_show_it(difference: Documented) -> None:
    assert difference.tests, "name a test that shows how our side behaves"
    assert [problem for each in difference.tests if (problem := missing_test(each))] == []


def test_a_named_test_that_does_not_exist_is_reported() -> None:
    here = "tests/tidy/test_differences.py"
    assert missing_test(f"{here}::test_a_named_test_that_does_not_exist_is_reported") is None
    assert missing_test("tests/tidy/test_nowhere.py::test_x") == "no file tests/tidy/test_nowhere.py"
    assert missing_test(f"{here}::test_nothing") == f"no test test_nothing in {here}"
    assert missing_test(f"{here}::Documented") == f"no test Documented in {here}"
    scenarios = "tests/scenarios/groups/test_groups.py::test_scenario"
    assert missing_test(f"{scenarios}[simple_group]") is None
    assert missing_test(f"{scenarios}[no_group]") == "no case no_group of test_scenario"
