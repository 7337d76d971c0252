"""Where a group goes on after its offsets were moved."""

from __future__ import annotations

import pytest
from kraft_http.models.groups import ResetOffsetsBody
from kraft_http.routers.group_lags import new_offset


@pytest.mark.parametrize(
    ("to", "value", "current", "at_time", "expected"),
    [
        ("earliest", None, 7, -1, 5),
        ("latest", None, 7, -1, 20),
        ("offset", 9, 7, -1, 9),
        ("offset", 1, 7, -1, 5),
        ("offset", 99, None, -1, 20),
        ("shift", 3, 7, -1, 10),
        ("shift", -3, 7, -1, 5),
        ("shift", 3, None, -1, 8),
        ("timestamp", 1_000, 7, 12, 12),
        ("timestamp", 1_000, 7, -1, 20),
    ],
)
def test_a_new_group_offset_must_lie_within_the_log(
    to: str, value: int | None, current: int | None, at_time: int, expected: int
) -> None:
    body = ResetOffsetsBody.model_validate({"to": to, "value": value})
    assert new_offset(body, current, 5, 20, at_time) == expected


@pytest.mark.parametrize("body", [{"to": "offset"}, {"to": "latest", "value": 3}, {"to": "timestamp", "value": -1}])
def test_an_offset_reset_value_is_required_where_the_mode_needs_one(body: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"value|negative"):
        ResetOffsetsBody.model_validate(body)
