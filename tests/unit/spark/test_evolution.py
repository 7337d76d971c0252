"""Which changes of a table's columns are allowed, and what the table has afterwards."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraft.spark.jobs.evolution import Evolution
from kraft.spark.jobs.running import JobFailed

TABLE = Evolution(table="the table a.b")


def values(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field("offset", pa.int64()), pa.field("value", pa.struct(list(fields)))])


@pytest.mark.parametrize(
    ("has", "wanted", "after"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(9, 2), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.decimal128(12, 2), pa.decimal128(9, 2), pa.decimal128(12, 2)),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.field("element", pa.int64()))),
        (pa.map_(pa.string(), pa.float32()), pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.float64())),
    ],
)
def test_a_column_has_the_wider_of_two_types(has: pa.DataType, wanted: pa.DataType, after: pa.DataType) -> None:
    assert TABLE.columns(values(("x", has)), values(("x", wanted))) == values(("x", after))


def test_new_fields_follow_the_fields_of_the_table_whatever_their_order() -> None:
    has = values(("a", pa.int32()), ("gone", pa.string()), ("b", pa.struct([("c", pa.int32())])))
    wanted = values(("b", pa.struct([("d", pa.string()), ("c", pa.int32())])), ("new", pa.bool_()), ("a", pa.int32()))
    assert TABLE.columns(has, wanted) == values(
        ("a", pa.int32()),
        ("gone", pa.string()),
        ("b", pa.struct([("c", pa.int32()), ("d", pa.string())])),
        ("new", pa.bool_()),
    )


@pytest.mark.parametrize(
    ("has", "wanted", "said"),
    [
        (pa.int32(), pa.string(), "has the column value.x as int32, but this run writes string"),
        (pa.int64(), pa.float64(), "has the column value.x as int64, but this run writes double"),
        (pa.decimal128(9, 2), pa.decimal128(12, 3), "decimal128\\(9, 2\\), but this run writes decimal128\\(12, 3\\)"),
        (pa.list_(pa.int32()), pa.list_(pa.string()), "value.x.element as int32"),
        (pa.map_(pa.int32(), pa.int32()), pa.map_(pa.int64(), pa.int32()), "value.x as map<int32, int32>"),
        (pa.struct([("y", pa.date32())]), pa.struct([("y", pa.timestamp("us"))]), "value.x.y as date32"),
    ],
)
def test_a_type_that_would_change_the_meaning_of_present_rows_is_refused(
    has: pa.DataType, wanted: pa.DataType, said: str
) -> None:
    with pytest.raises(JobFailed, match=said):
        TABLE.columns(values(("x", has)), values(("x", wanted)))


def test_a_name_that_differs_only_in_case_is_refused() -> None:
    with pytest.raises(JobFailed, match=r"has the column value\.id, and this run writes value\.ID"):
        TABLE.columns(values(("id", pa.int32())), values(("ID", pa.int32())))


def test_a_format_without_widening_keeps_its_types_and_accepts_narrower_ones() -> None:
    narrow = Evolution(table="/t", widens=False)
    assert narrow.columns(values(("x", pa.int64())), values(("x", pa.int32()))) == values(("x", pa.int64()))
    with pytest.raises(JobFailed, match="cannot widen a type"):
        narrow.columns(values(("x", pa.int32())), values(("x", pa.int64())))
