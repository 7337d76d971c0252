"""Read files as rows: which files are read, their columns, and a check that all of them fit before a run writes
anything.

Lines of text and of JSON become records unchanged. CSV, ORC, Parquet and Avro files have columns, those of the first
run. A file with other columns or types is rejected by name: nothing is guessed, moved to another column or dropped.
Spark's known ways to lose rows are prevented: files older than others, names that look like patterns, sub-directories.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.batches import Limit
from kraft.spark.jobs.running import JobFailed, observed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

AVRO = "avro"
TYPED = ("csv", "orc", "parquet")
NAMED = ("orc", "parquet")
"""Files that name their columns themselves."""
AGE_MAX = "365000d"
"""Spark leaves out files that are older than the newest known file by more than this limit (7 days by default). This is
a thousand years."""
PATTERN = re.compile(r"([\\{}\[\]*?])")
PATTERN_OR_COMMA = re.compile(r"([\\{}\[\]*?,])")
CORRUPT = "_corrupt_record"
CSV = {"header": "true", "enforceSchema": "false", "mode": "FAILFAST"}
SHOWN_MAX = 80
FILE_HEADER = "kraft.file"
ERROR_HEADER = "kraft.error"
"""The header with the error of a line that could not be parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """A file, or a directory of files. `by_columns`: its directories name columns (`day=1`), which are added to the
    rows."""

    format: str
    place: Path
    by_columns: bool

    @property
    def spark_format(self) -> str:
        return {"json": "text", AVRO: "binaryFile"}.get(self.format, self.format)

    def options(self) -> dict[str, str]:
        """Return Spark's reader options. Files are looked up recursively: otherwise Spark skips sub-directories, and
        reads files with names like patterns twice."""
        own = CSV if self.format == "csv" else {}
        return dict(own) if self.by_columns else {**own, "recursiveFileLookup": "true"}

    def now(self, session: SparkSession, shape: StructType) -> DataFrame:
        """Return the rows of the files that exist now."""
        reader = session.read.format(self.spark_format).options(**self.options())
        return self.rows(reader.schema(self.read_as(shape)).load(literal(self.place)), shape)

    def read_as(self, shape: StructType) -> StructType | str:
        """Return the schema with which Spark itself reads: for Avro, that of the file listing."""
        from kraft.spark.jobs.avro_files import LISTED

        return LISTED if self.format == AVRO else shape

    def rows(self, found: DataFrame, shape: StructType) -> DataFrame:
        """Convert the result of Spark's own read to rows."""
        from kraft.spark.jobs.avro_files import rows_of

        return rows_of(found, shape) if self.format == AVRO else found

    def paths(self) -> list[Path]:
        """Return the paths of all files that Spark would read."""
        if not self.place.is_dir():
            return [self.place]
        found = []
        for directory, directories, names in os.walk(self.place):
            directories[:] = sorted(each for each in directories if is_seen(each))
            found += [Path(directory) / each for each in sorted(names) if is_seen(each)]
        return found

    def stream(self, session: SparkSession, shape: StructType, limit: Limit) -> DataFrame:
        """Return a stream of the rows. `limit` bounds each micro-batch. A single file is given as a pattern, because
        Spark's stream reads only directories and patterns."""
        place = self.place
        path = (
            literal(place)
            if place.is_dir()
            else f"{literal(place.parent)}/{{{PATTERN_OR_COMMA.sub(_QUOTED, place.name)}}}"
        )
        reader = session.readStream.format(self.spark_format).options(**self.options()).schema(self.read_as(shape))
        reader = reader.option("maxFileAge", AGE_MAX).option(limit.option, limit.value)
        return self.rows(reader.load(path), shape)

    def shape(self, session: SparkSession) -> StructType:
        """Return the columns and types that all present files agree on. Raises PySparkException."""
        from pyspark.sql.types import StringType, StructField, StructType

        if self.format == AVRO:
            from kraft.spark.jobs.avro_files import shape_of_files

            return shape_of_files(self.paths())
        if self.format not in TYPED:
            return StructType([StructField("value", StringType())])
        wanted = {"header": "true", "inferSchema": "true"} if self.format == "csv" else {"mergeSchema": "true"}
        layout = {} if self.by_columns else {"recursiveFileLookup": "true"}
        return session.read.format(self.format).options(**wanted, **layout).load(literal(self.place)).schema


_QUOTED = r"\\\1"


def literal(place: Path) -> str:
    """Quote a path for Spark, which treats `{}[]*?` as patterns."""
    return PATTERN.sub(_QUOTED, str(place))


def source_files(file_format: str, place: Path) -> SourceFiles:
    """Return the source. Raises JobFailed for files that Spark would skip or read twice."""
    if not place.is_dir():
        if not is_seen(place.name):
            raise JobFailed(
                f"{place}: Spark ignores files whose names start with _ or . (or end in ._COPYING_); give "
                "it another name"
            )
        return SourceFiles(format=file_format, place=place, by_columns=False)
    if file_format not in TYPED:
        return SourceFiles(format=file_format, place=place, by_columns=False)
    columns = plain = False
    strange = PATTERN.search(str(place)) is not None
    for directory, directories, names in os.walk(place):
        directories[:] = [each for each in directories if is_seen(each)]
        columns = columns or any("=" in each for each in directories)
        strange = strange or any(PATTERN.search(each) for each in (*directories, *names))
        inner = Path(directory).relative_to(place).parts
        plain = plain or (any(map(is_seen, names)) and not (inner and all("=" in each for each in inner)))
    if columns and (plain or strange):
        what = (
            "files beside them, which Spark would ignore"
            if plain
            else "names with one of {}[]*?\\, which Spark would read twice"
        )
        raise JobFailed(f"{place} has directories that name columns (name=value), and {what}: move or rename them")
    return SourceFiles(format=file_format, place=place, by_columns=columns)


def is_seen(name: str) -> bool:
    """Whether Spark reads a file or directory with this name."""
    return not name.startswith(("_", ".")) and not name.endswith("._COPYING_")


def records(
    rows: DataFrame, file_format: str, key: str | None, dead_letter: tuple[str, str] | None = None
) -> DataFrame:
    """Return the key and value of each row. With `dead_letter`, for JSON lines: the topic of good lines, and the topic
    of lines that are not JSON objects; each row then has its topic and headers. Raises JobFailed for a key column that
    does not exist."""
    from pyspark.sql import functions as f

    if file_format == "json":
        return lines_of_json(rows, key) if dead_letter is None else sorted_lines(rows, key, *dead_letter)
    if key is not None and key not in rows.columns:
        raise JobFailed(f"there is no column {key}; the columns are {', '.join(rows.columns)}")
    keyed = f.lit(None).cast("string") if key is None else f.col(quoted(key)).cast("string")
    value = (
        f.col("value")
        if file_format == "text"
        else f.to_json(f.struct(*[f.col(quoted(name)) for name in rows.columns]))
    )
    return observed(rows.select(keyed.alias("key"), value.alias("value")))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def lines_of_json(rows: DataFrame, key: str | None) -> DataFrame:
    """Return each line unchanged, without empty lines. A line that is not a JSON object fails the query."""
    from pyspark.sql import functions as f

    parsed = parsed_json(key)
    complaint = f.concat(
        f.lit("ValueError: a line is not a JSON object: "),
        f.substring("value", 1, SHOWN_MAX),
        f.lit(" in "),
        f.input_file_name(),
    )
    value = f.when(parsed[CORRUPT].isNotNull(), f.raise_error(complaint).cast("string")).otherwise(f.col("value"))
    keyed = f.lit(None).cast("string") if key is None else parsed[key]
    return observed(rows.where(f.trim("value") != "").select(keyed.alias("key"), value.alias("value")))


def sorted_lines(rows: DataFrame, key: str | None, topic: str, dead_letter: str) -> DataFrame:
    """Return each line unchanged, without empty lines. A line that is not a JSON object goes to the topic
    `dead_letter`, with its file and its error in headers."""
    from pyspark.sql import functions as f

    parsed = parsed_json(key)
    is_dead = parsed[CORRUPT].isNotNull()
    told = {FILE_HEADER: f.input_file_name(), ERROR_HEADER: f.lit("not a JSON object")}
    headers = f.array(
        *[f.struct(f.lit(name).alias("key"), value.cast("binary").alias("value")) for name, value in told.items()]
    )
    keyed = f.lit(None).cast("string") if key is None else parsed[key]
    written = rows.where(f.trim("value") != "").select(
        f.when(is_dead, f.lit(dead_letter)).otherwise(f.lit(topic)).alias("topic"),
        f.when(~is_dead, keyed).alias("key"),
        f.col("value"),
        f.when(is_dead, headers).alias("headers"),
    )
    return observed(written)


def parsed_json(key: str | None) -> Column:
    """Parse a line: its key, and the line itself if it is not a JSON object."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    names = [CORRUPT] if key is None else [key, CORRUPT]
    return f.from_json("value", StructType([StructField(name, StringType()) for name in names]), {"mode": "PERMISSIVE"})


def check_files(
    session: SparkSession, files: SourceFiles, shape: StructType, key: str | None, *, lines_may_be_wrong: bool
) -> None:
    """Read all present files without writing anything. Raises JobFailed, or Spark's errors, which name the file."""
    from pyspark.sql import functions as f

    from kraft.spark.jobs.avro_files import check_fit

    rows = files.now(session, shape)
    if files.format == "json":
        check_lines(rows, key, may_be_wrong=lines_may_be_wrong)
    elif files.format in (*TYPED, AVRO):
        if files.format in NAMED:
            check_columns(files, files.shape(session), shape)
        elif files.format == AVRO:
            check_fit(files.paths(), shape)
        records(rows, files.format, key).agg(f.max(f.length("value"))).collect()
    else:
        records(rows, files.format, key)


def check_lines(rows: DataFrame, key: str | None, *, may_be_wrong: bool) -> None:
    from pyspark.sql import functions as f

    line = parsed_json(key)
    lines = rows.where(f.trim("value") != "").select(line.alias("line"), f.input_file_name().alias("file"))
    wrong = None if may_be_wrong else lines.where(f.col("line")[CORRUPT].isNotNull()).first()
    if wrong is not None:
        raise JobFailed(f"{wrong.file}: a line is not a JSON object: {wrong.line[CORRUPT][:SHOWN_MAX]}")
    if key is not None and lines.where(f.col("line")[key].isNotNull()).first() is None and lines.first() is not None:
        raise JobFailed(f"there is no field {key} in any line")


def check_columns(files: SourceFiles, now: StructType, shape: StructType) -> None:
    """Raise JobFailed for an ORC or Parquet column that the first run did not have: Spark would drop it."""
    known = {field.name: field.dataType.simpleString() for field in shape}
    for field in now:
        if known.get(field.name) != field.dataType.simpleString():
            what = (
                f"type {field.dataType.simpleString()} (it was {known[field.name]})"
                if field.name in known
                else "not among the columns of the first run"
            )
            raise JobFailed(
                f"{first_with(files, field.name)}: column {field.name} is {what}; ingest such files from "
                "another directory in a separate run"
            )


def first_with(files: SourceFiles, column: str) -> Any:
    """Return a file that has the column; the given path if no such file is found."""
    from pyarrow import orc, parquet

    place = files.place
    for path in sorted(place.rglob(f"*.{files.format}")) if place.is_dir() else [place]:
        names = orc.ORCFile(path).schema.names if files.format == "orc" else parquet.read_schema(path).names
        if column in names:
            return path
    return place
