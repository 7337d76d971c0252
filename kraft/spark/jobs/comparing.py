"""Compare two sides record by record, in Spark. Each record, or key, is classified (`tally.Kind`), and the cases are
counted by partition.

A topic and its archive are compared by offset. Two topics are compared by place in the partition, because their offsets
may differ (compaction before the copy, control records). If one of two topics is compacted, they are compared by key,
because only the last value of each key is certain.

A side is a frame of (partition, offset, key, dead, print). `dead` is true for a record without a value. `print` is a
digest of the compared fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.spark.jobs.tally import Kind, Tally

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def prints(rows: DataFrame, *, timestamps: bool) -> DataFrame:
    """Return a side, from rows of the source or of an archive."""
    from pyspark.sql import functions as f

    columns = [f.hex("key"), f.hex("value"), f.to_json("headers")]
    columns += [f.unix_millis("timestamp").cast("string")] if timestamps else []
    whole = f.sha2(f.concat_ws("|", *[f.coalesce(column, f.lit("null")) for column in columns]), 256)
    return rows.select("partition", "offset", "key", f.col("value").isNull().alias("dead"), whole.alias("print"))


def by_offset(left: DataFrame, right: DataFrame, starts: DataFrame, *, compacted: bool) -> list[Tally]:
    """Compare by offset. `starts` is (partition, left_start): the topic's log start offsets. `compacted`: records with
    a later record of the same key, without a value, or without a key may be missing. A record that is twice in the
    archive is compared with the topic's record once."""
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
    """Return the side with the place of each record in its partition, starting at 1."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    return side.select(
        "partition",
        "offset",
        "print",
        f.row_number().over(Window.partitionBy("partition").orderBy("offset")).alias("place"),
    )


def firsts(side: DataFrame) -> dict[int, tuple[int, str]]:
    """Return, for each partition of a `placed` side, the number of records and the print of the first one."""
    from pyspark.sql import functions as f

    counted = side.groupBy("partition").agg(
        f.count("place").alias("records"), f.min(f.struct("place", "print")).alias("first")
    )
    return {
        each[0]: (each[1], each[2])
        for each in counted.select("partition", "records", f.col("first.print").alias("print")).collect()
    }


def found_at(side: DataFrame, wanted: DataFrame) -> dict[int, int]:
    """Return, by partition, the first place in a `placed` side of a record with the print in `wanted` (partition,
    print)."""
    from pyspark.sql import functions as f

    found = (
        side.join(f.broadcast(wanted), ["partition", "print"]).groupBy("partition").agg(f.min("place").alias("place"))
    )
    return {each[0]: each[1] for each in found.select("partition", "place").collect()}


def by_place(left: DataFrame, right: DataFrame, shifts: DataFrame) -> list[Tally]:
    """Compare two `placed` sides. `shifts` is (partition, shift): each partition is compared under each of its shifts
    (see alignment.py)."""
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
    """Complete the classification for comparisons in which a record has at most one counterpart."""
    from pyspark.sql import functions as f

    kind = kind.when(f.col("left_print").isNull(), f.lit(Kind.RIGHT_ONLY.value)).when(
        f.col("right_print").isNull(), f.lit(Kind.LEFT_ONLY.value)
    )
    return kind.when(f.col("left_print") == f.col("right_print"), f.lit(Kind.SAME.value)).otherwise(
        f.lit(Kind.UNEQUAL.value)
    )


def by_key(left: DataFrame, right: DataFrame, starts: DataFrame) -> list[Tally]:
    """Compare by key. `starts` is (partition, left_start, right_start): the log start offsets. A key whose last record
    is a tombstone counts as absent.

    Retention of the other side explains a key of one side only before a certain record: the first one that both sides
    still hold as the last of its key. The other log still has that record, so it has everything after it.
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
    """Count records without a key individually, because they do not belong to one key."""
    if tally.kind not in (Kind.KEYLESS_LEFT, Kind.KEYLESS_RIGHT):
        return tally
    return tally._replace(cases=tally.left + tally.right, left_offset=None, right_offset=None)


def gone(start: Column, offset: Column, first: Column) -> Column:
    """Whether retention explains that a log lacks the record at `offset` of the other side. `start` is the log start
    offset."""
    return (start > 0) & (first.isNull() | (offset < first))


def last_of_keys(side: DataFrame) -> DataFrame:
    """Return (partition, key, offset, dead, print, records): the last record of each key, and the key's number of
    records. Records without a key are grouped under a null key."""
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
    """Count rows of (partition, place, left_offset, right_offset) by kind. `left` and `right` are the records that a
    row stands for. By default it is one record on each side that has an offset."""
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
