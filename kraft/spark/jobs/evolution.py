"""The evolution of a table's columns: which columns a table has after a run, given those that it has and those that the
run writes. Pure.

The rules are those of Iceberg's schema evolution: a column or a nested field may be added, and a type may be widened. A
field that the run does not write stays in the table and is null in the run's rows. The order of fields has no meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kraft.spark.jobs.running import JobFailed

WIDER = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}
"""The wider types of each type. A decimal is widened to one of a higher precision and the same scale."""
OTHER_TABLE = "give another table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """How the columns of one table may change. `table` is its name in messages. `widens`: the table's format can widen
    types. `other` is the advice for a change that is not allowed."""

    table: str
    widens: bool = True
    other: str = OTHER_TABLE

    def columns(self, has: pa.Schema, wanted: pa.Schema) -> pa.Schema:
        """Return the table's columns after a run that writes the columns `wanted`. Raises JobFailed for a change that
        is not allowed."""
        return pa.schema(list(self.fields("", list(has), list(wanted))))

    def fields(self, path: str, has: list[pa.Field], wanted: list[pa.Field]) -> list[pa.Field]:
        written = {each.name: each for each in wanted}
        found = []
        for each in has:
            if each.name in written:
                merged = self.merged(path + each.name, each.type, written[each.name].type)
                found.append(each.with_type(merged))
            else:
                found.append(each)
        names = {each.name.lower(): each.name for each in has}
        for each in wanted:
            if each.name not in names.values():
                if (known := names.get(each.name.lower())) is not None:
                    raise JobFailed(
                        f"{self.table} has the column {path}{known}, and this run writes {path}{each.name}: names that "
                        f"differ only in case cannot be read by Spark; {self.other}"
                    )
                found.append(each)
        return found

    def merged(self, path: str, has: pa.DataType, wanted: pa.DataType) -> pa.DataType:
        """Return the type of a column after the run."""
        if has == wanted:
            return has
        if pa.types.is_struct(has) and pa.types.is_struct(wanted):
            return pa.struct(self.fields(f"{path}.", list(has), list(wanted)))
        if is_list(has) and is_list(wanted):
            element = self.merged(f"{path}.element", has.value_type, wanted.value_type)
            field = pa.field("element", element)
            return pa.large_list(field) if pa.types.is_large_list(has) else pa.list_(field)
        if pa.types.is_map(has) and pa.types.is_map(wanted) and has.key_type == wanted.key_type:
            return pa.map_(has.key_type, self.merged(f"{path}.value", has.item_type, wanted.item_type))
        if is_wider(has, wanted):
            return has
        if is_wider(wanted, has) and self.widens:
            return wanted
        why = "this format cannot widen a type" if is_wider(wanted, has) else "the type cannot be changed to that"
        raise JobFailed(
            f"{self.table} has the column {path} as {shown_type(has)}, but this run writes {shown_type(wanted)}: "
            f"{why}; {self.other}"
        )


def is_wider(wide: pa.DataType, narrow: pa.DataType) -> bool:
    """Whether the types differ and every value of `narrow` is a value of `wide`."""
    if pa.types.is_decimal(wide) and pa.types.is_decimal(narrow):
        return bool(wide.scale == narrow.scale and wide.precision > narrow.precision)
    return wide in WIDER.get(narrow, ())


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def shown_type(kind: pa.DataType) -> str:
    return str(kind).replace("large_", "")
