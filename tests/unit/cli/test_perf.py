"""How latencies are told: the share of records, not of deliveries."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from kraft.cli.admin.perf import SHARES, Latencies


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 400)), min_size=1, max_size=30))
def test_a_quantile_is_the_least_time_within_which_so_many_records_were_acknowledged(
    taken: list[tuple[int, int]],
) -> None:
    latencies = Latencies()
    for ms, count in taken:
        latencies.add(ms / 1000, count)
    each = sorted(ms for ms, count in taken for _ in range(count))
    told = latencies.document()
    assert list(told) == ["mean_ms", *(name for _, name in SHARES), "max_ms"]
    assert told["max_ms"] == each[-1]
    assert math.isclose(told["mean_ms"] or 0, sum(each) / len(each), abs_tol=0.001)
    for share, name in SHARES:
        assert told[name] == each[math.ceil(share * len(each)) - 1]


def test_where_nothing_was_acknowledged_there_are_no_times() -> None:
    assert set(Latencies().document().values()) == {None}
