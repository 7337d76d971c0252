"""Each check of Spark's own suites is shown by tests of ours."""

from __future__ import annotations

import pytest

from tests.named_tests import missing_test
from tests.spark_suites import TABLE, Check


@pytest.mark.parametrize(
    "check", [pytest.param(each, id=f"{suite}: {each.name}") for suite, checks in TABLE.items() for each in checks]
)
def test_each_check_of_sparks_suites_is_shown_by_tests_that_exist(check: Check) -> None:
    assert check.tests
    assert [problem for each in check.tests if (problem := missing_test(each))] == []
