"""Comparing two sides record by record, in Spark: what each record, or key, is a case of (`tally.Kind`), counted by
partition.

By offset: a topic and its archive. By place in the partition: two topics, whose offsets may differ (compaction
before the copy, control records). By key: two topics of which one is compacted, where what is certain is the last
value of each key alone.

A side is a frame of (partition, offset, key, dead, print): `dead` a record without a value, `print` a digest of what
is compared of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.spark.jobs.tally import Kind, Tally

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def prints(rows: DataFrame, *, timestamps: bool) -> DataFrame:
    """A side, of rows of the source or of an archive."""
    from pyspark.sql import functions as f

    columns = [f.hex("key"), f.hex("value"), f.to_json("headers")]
    columns += [f.unix_millis("timestamp").cast("string")] if timestamps else []
    whole = f.sha2(f.concat_ws("|", *[f.coalesce(column, f.lit("null")) for column in columns]), 256)
    return rows.select("partition", "offset", "key", f.col("value").isNull().alias("dead"), whole.alias("print"))


def by_offset(left: DataFrame, right: DataFrame, starts: DataFrame, *, compacted: bool) -> list[Tally]:
    """`starts` is (partition, left_start): the topic's log start offsets. `compacted`: what has a later record of
    its key, no value or no key may be gone. A record that the archive has twice is the topic's once."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    copy = f.row_number().over(Window.partitionBy("partition", "offset").orderBy("print")).alias("copy")
    a, b = (side.select("*", copy).alias(name) for side, name in ((left, "a"), (right, "b")))
    same = [f.col(f"a.{name}") == f.col(f"b.{name}") for name in ("partition", "offset", "copy")]
    both = a.join(b, same, "full_outer").select(
        f.coalesce("a.partition", "b.partition").alias("partition"),
        f.coalesce("a.offset", "b.offset").alias("place"),
        f.coalesce("a.copy", "b.copy").alias("copy"),
        f.col("a.offset").alias("left_offset"),
        f.col("b.offset").alias("right_offset"),
        f.col("a.print").alias("left_print"),
        f.col("b.print").alias("right_print"),
        f.coalesce("a.key", "b.key").alias("key"),
        f.coalesce("a.dead", "b.dead").alias("dead"),
    )
    known = both.join(f.broadcast(starts), "partition", "left")
    kind = f.when(f.col("left_print").isNull() & (f.col("place") < f.col("left_start")), f.lit(Kind.GONE_LEFT.value))
    if compacted:
        known = known.withColumn("last", f.max("place").over(Window.partitionBy("partition", "key")))
        removable = f.col("key").isNull() | f.col("dead") | (f.col("place") < f.col("last"))
        removable = removable & (f.col("copy") == 1)  # No cleaning explains a second one.
        kind = kind.when(f.col("left_print").isNull() & removable, f.lit(Kind.COMPACTED.value))
    return tallied(known, one_to_one(kind), f.lit(0))


def placed(side: DataFrame) -> DataFrame:
    """With the place of each record in its partition, from 1."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return side.select(
        "partition",
        "offset",
        "print",
        f.row_number().over(Window.partitionBy("partition").orderBy("offset")).alias("place"),
    )


def firsts(side: DataFrame) -> dict[int, tuple[int, str]]:
    """The number of records of each partition of what is `placed`, and the print of the first."""
    from pyspark.sql import functions as f

    counted = side.groupBy("partition").agg(
        f.count("place").alias("records"), f.min(f.struct("place", "print")).alias("first")
    )
    return {
        each[0]: (each[1], each[2])
        for each in counted.select("partition", "records", f.col("first.print").alias("print")).collect()
    }


def found_at(side: DataFrame, wanted: DataFrame) -> dict[int, int]:
    """By partition, the place of the first record of what is `placed` that has the print of `wanted` (partition,
    print)."""
    from pyspark.sql import functions as f

    found = (
        side.join(f.broadcast(wanted), ["partition", "print"]).groupBy("partition").agg(f.min("place").alias("place"))
    )
    return {each[0]: each[1] for each in found.select("partition", "place").collect()}


def by_place(left: DataFrame, right: DataFrame, shifts: DataFrame) -> list[Tally]:
    """Both `placed`. `shifts` is (partition, shift): each partition is compared under each of its shifts (see
    alignment.py)."""
    from pyspark.sql import functions as f

    a = left.join(f.broadcast(shifts), "partition").alias("a")
    shifted = (f.col("place") + f.col("shift")).alias("place")
    b = right.join(f.broadcast(shifts), "partition").select("partition", "shift", "offset", "print", shifted).alias("b")
    same = (
        (f.col("a.partition") == f.col("b.partition"))
        & (f.col("a.shift") == f.col("b.shift"))
        & (f.col("a.place") == f.col("b.place"))
    )
    both = a.join(b, same, "full_outer").select(
        f.coalesce("a.partition", "b.partition").alias("partition"),
        f.coalesce("a.shift", "b.shift").alias("shift"),
        f.coalesce("a.place", "b.place").alias("place"),
        f.col("a.offset").alias("left_offset"),
        f.col("b.offset").alias("right_offset"),
        f.col("a.print").alias("left_print"),
        f.col("b.print").alias("right_print"),
    )
    kind = f.when(f.col("left_print").isNull() & (f.col("place") < 1), f.lit(Kind.GONE_LEFT.value))
    kind = kind.when(f.col("right_print").isNull() & (f.col("place") <= f.col("shift")), f.lit(Kind.GONE_RIGHT.value))
    return tallied(both, one_to_one(kind), f.col("shift"))


def one_to_one(kind: Column) -> Column:
    """What is left of the kinds, where a record has at most one counterpart."""
    from pyspark.sql import functions as f

    kind = kind.when(f.col("left_print").isNull(), f.lit(Kind.RIGHT_ONLY.value)).when(
        f.col("right_print").isNull(), f.lit(Kind.LEFT_ONLY.value)
    )
    return kind.when(f.col("left_print") == f.col("right_print"), f.lit(Kind.SAME.value)).otherwise(
        f.lit(Kind.UNEQUAL.value)
    )


def by_key(left: DataFrame, right: DataFrame, starts: DataFrame) -> list[Tally]:
    """`starts` is (partition, left_start, right_start): the log start offsets. A key whose last record has no value
    is none, like one that is not there.

    A key of one side alone is explained by the other's retention only before the first record that both still hold
    as the last of its key: the other log, which still has that one, has everything behind it.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    a, b = last_of_keys(left).alias("a"), last_of_keys(right).alias("b")
    both = a.join(
        b, (f.col("a.partition") == f.col("b.partition")) & (f.col("a.key") == f.col("b.key")), "full_outer"
    ).select(
        f.coalesce("a.partition", "b.partition").alias("partition"),
        f.coalesce("a.key", "b.key").alias("key"),
        f.coalesce("a.offset", "b.offset").alias("place"),
        f.col("a.offset").alias("left_offset"),
        f.col("b.offset").alias("right_offset"),
        f.coalesce("a.records", f.lit(0)).alias("left_records"),
        f.coalesce("b.records", f.lit(0)).alias("right_records"),
        (f.col("a.offset").isNotNull() & ~f.col("a.dead")).alias("in_left"),
        (f.col("b.offset").isNotNull() & ~f.col("b.dead")).alias("in_right"),
        (f.col("a.print") == f.col("b.print")).alias("same"),
    )
    whole = Window.partitionBy("partition")
    shared = f.col("in_left") & f.col("in_right") & f.col("same")
    known = both.join(f.broadcast(starts), "partition", "left")
    known = known.withColumn("left_first", f.min(f.when(shared, f.col("left_offset"))).over(whole))
    known = known.withColumn("right_first", f.min(f.when(shared, f.col("right_offset"))).over(whole))
    kind = f.when(
        f.col("key").isNull(),
        f.when(f.col("left_offset").isNull(), f.lit(Kind.KEYLESS_RIGHT.value)).otherwise(
            f.lit(Kind.KEYLESS_LEFT.value)
        ),
    )
    kind = kind.when(~f.col("in_left") & ~f.col("in_right"), f.lit(Kind.SAME.value))
    kind = kind.when(
        f.col("left_offset").isNull() & gone(f.col("left_start"), f.col("right_offset"), f.col("right_first")),
        f.lit(Kind.GONE_LEFT.value),
    )
    kind = kind.when(
        f.col("right_offset").isNull() & gone(f.col("right_start"), f.col("left_offset"), f.col("left_first")),
        f.lit(Kind.GONE_RIGHT.value),
    )
    kind = kind.when(f.col("left_offset").isNull(), f.lit(Kind.RIGHT_ONLY.value)).when(
        f.col("right_offset").isNull(), f.lit(Kind.LEFT_ONLY.value)
    )
    kind = kind.when(shared, f.lit(Kind.SAME.value)).otherwise(f.lit(Kind.UNEQUAL.value))
    return [by_record(each) for each in tallied(known, kind, f.lit(0), f.col("left_records"), f.col("right_records"))]


def by_record(tally: Tally) -> Tally:
    """What has no key is not one key, but so many records."""
    if tally.kind not in (Kind.KEYLESS_LEFT, Kind.KEYLESS_RIGHT):
        return tally
    return tally._replace(cases=tally.left + tally.right, left_offset=None, right_offset=None)


def gone(start: Column, offset: Column, first: Column) -> Column:
    """Whether retention of a log that begins at `start` explains that it lacks what the other side has at `offset`."""
    return (start > 0) & (first.isNull() | (offset < first))


def last_of_keys(side: DataFrame) -> DataFrame:
    """(partition, key, offset, dead, print, records): the last record of each key, and how many the key has. Records
    without a key are one, which is null."""
    from pyspark.sql import functions as f

    found = side.groupBy("partition", "key").agg(
        f.max(f.struct("offset", "dead", "print")).alias("last"), f.count("offset").alias("records")
    )
    return found.select(
        "partition", "key", *[f.col(f"last.{name}").alias(name) for name in ("offset", "dead", "print")], "records"
    )


def tallied(
    rows: DataFrame, kind: Column, shift: Column, left: Column | None = None, right: Column | None = None
) -> list[Tally]:
    """The tallies of rows of (partition, place, left_offset, right_offset), counted by kind. `left` and `right` are the
    records that a row stands for: one where it has an offset, if they are not given.
    """
    from pyspark.sql import functions as f

    one, none = f.lit(1), f.lit(0)
    records = [
        (f.when(f.col(offset).isNotNull(), one).otherwise(none) if column is None else column).alias(name)
        for name, column, offset in (("left_records", left, "left_offset"), ("right_records", right, "right_offset"))
    ]
    chosen = rows.select(
        "partition", shift.alias("shift"), kind.alias("kind"), "place", "left_offset", "right_offset", *records
    )
    counted = chosen.groupBy("partition", "shift", "kind").agg(
        f.count("place").alias("cases"),
        f.sum("left_records").alias("left"),
        f.sum("right_records").alias("right"),
        f.min(f.struct("place", "left_offset", "right_offset")).alias("first"),
    )
    first = [f.col(f"first.{name}").alias(name) for name in ("place", "left_offset", "right_offset")]
    return [
        Tally(*each)
        for each in counted.select("partition", "shift", "kind", "cases", "left", "right", *first).collect()
    ]
