"""Regular expressions of clients."""

from __future__ import annotations

import pytest

from kraft.common.errors import ApiError
from kraft.coordinator.regular_expression import EXPRESSION_BYTES_MAX, RegularExpression
from kraft.protocol.error_codes import ErrorCode


def test_a_regular_expression_must_match_the_whole_text() -> None:
    expression = RegularExpression("or(ders|acle)-[0-9]+")
    assert [text for text in ("orders-7", "oracle-12", "orders-7x", "my orders-7", "") if expression.matches(text)] == [
        "orders-7",
        "oracle-12",
    ]


def test_an_expression_with_exponential_backtracking_in_python_matches_quickly() -> None:
    assert not RegularExpression("(a+)+$").matches("a" * 10_000 + "b")


@pytest.mark.parametrize(
    "text", ["(", "a**", "(?!a)b", r"(a)\1", "a{1001}", "((a{1000}){1000}){1000}", "a" * (EXPRESSION_BYTES_MAX + 1)]
)
def test_invalid_or_too_large_expressions_are_refused_with_their_error_code(text: str) -> None:
    with pytest.raises(ApiError, match="The regular expression is not valid: ") as refused:
        RegularExpression(text)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
