"""Where a job remembers how far it is, what it refuses, and how a Spark error is told. Without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraft.spark.errors import DataLoss
from kraft.spark.jobs.access import Access
from kraft.spark.jobs.archive import BatchFiles
from kraft.spark.jobs.dead_letters import DeadLetters
from kraft.spark.jobs.files import literal, source_files
from kraft.spark.jobs.job_state import check_same
from kraft.spark.jobs.parquet_files import Layout
from kraft.spark.jobs.running import JobFailed, digest, reason, state_directory

NAMES, BEFORE = ("cluster", "topic", "/data"), ("/data", "topic", "host:9092")
UNREADABLE = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:///tmp/2%20x.csv.  SQLSTATE: KD001
\tat org.apache.spark.A.b(A.scala:1)
Caused by: org.apache.spark.SparkIllegalArgumentException: CSV header does not conform to the schema.
 Header: b, a
\tat org.apache.spark.C.d(C.scala:1)
\t... 10 more
Caused by: java.lang.NumberFormatException: For input string: "x"
"""


def test_the_checkpoint_is_the_given_path_or_an_earlier_versions_path_or_derived_from_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    assert state_directory("/said", "ingest", NAMES, BEFORE) == "/said"
    ours = state_directory(None, "ingest", NAMES, BEFORE)
    assert ours == str(tmp_path / "home/kraft/spark" / f"ingest-{digest(NAMES)}")
    assert state_directory(None, "ingest", NAMES, ("other", "spelling")) == ours
    assert state_directory(None, "mirror", NAMES, BEFORE) != ours
    earlier = tmp_path / "kraft-spark-state" / f"ingest-{digest(BEFORE)}"
    earlier.mkdir(parents=True)
    assert state_directory(None, "ingest", NAMES, BEFORE) == str(earlier)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert state_directory(None, "mirror", NAMES, BEFORE).startswith("/home/somebody/.local/state/kraft/spark/mirror-")


def test_the_arguments_and_topics_of_a_job_must_not_change_between_runs() -> None:
    known = {"job": "ingest", "topic": "t", "id of topic t": "1", "key": ""}
    check_same(known, dict(known), "here")
    check_same({**known, "id of topic t": None}, known, "here")
    check_same(known, {**known, "id of topic t": None, "cluster": "c"}, "here")
    with pytest.raises(
        JobFailed, match=r"topic t was deleted and recreated since here began \(its id was 1, and is 2\)"
    ):
        check_same(known, {**known, "id of topic t": "2"}, "here")
    with pytest.raises(JobFailed, match="key none, but this run has carrier"):
        check_same(known, {**known, "key": "carrier"}, "here")


def test_an_unreadable_file_is_named_with_its_causes() -> None:
    told = reason(RuntimeError(UNREADABLE))
    assert told == (
        "/tmp/2 x.csv does not have the expected columns: CSV header does not conform to the schema.; Header: b, a; "
        'For input string: "x"'
    )
    assert reason(RuntimeError("first\nValueError: ours\nlast")) == "ValueError: ours"
    assert reason(RuntimeError("first\nlast")) == "first"
    planned = (
        "[STREAM_FAILED] Query [id = 1] ended: [PYTHON_DATA_SOURCE_ERROR] Failed to plan: ValueError: ours\n SQLSTATE"
    )
    assert reason(RuntimeError(planned)) == "ValueError: ours"
    looked = "[PYTHON_EXCEPTION] An exception: kraft.spark.errors.LookUpFailed: [KAFKA_LOOK_UP_FAILED] why\n SQLSTATE"
    assert reason(RuntimeError(looked)) == "[KAFKA_LOOK_UP_FAILED] why"


FAILED_TASK = """[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: Job aborted \
due to stage failure: Task 0 in stage 0.0 failed 1 times
Traceback (most recent call last):
  File "kraft/spark/sink/sink_transaction.py", line 1, in settle
    raise problem
{0}
\tat org.apache.spark.A.b(A.scala:1)
Caused by: java.lang.OutOfMemoryError: not this
"""


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (
            "kraft.spark.client.wire.WireError: a row for t-0 has 9 bytes: MESSAGE_TOO_LARGE",
            "a row for t-0 has 9 bytes: MESSAGE_TOO_LARGE",
        ),
        ("kraft.spark.errors.DataLoss: [KAFKA_DATA_LOSS.X] offsets are gone", "[KAFKA_DATA_LOSS.X] offsets are gone"),
        (
            "kraft.protocol.records.record.CorruptBatch: CRC of the batch at offset 5 is 0x1",
            "CRC of the batch at offset 5 is 0x1",
        ),
        (
            "ConnectionResetError: [Errno 104] Connection reset by peer",
            "ConnectionResetError: [Errno 104] Connection reset by peer",
        ),
        ("cimpl.KafkaException: KafkaError{code=_TRANSPORT}", "cimpl.KafkaException: KafkaError{code=_TRANSPORT}"),
    ],
)
def test_the_cause_of_a_failed_task_is_reported_instead_of_the_stage_failure(last: str, told: str) -> None:
    assert reason(RuntimeError(FAILED_TASK.format(last))) == told


def test_a_data_loss_error_names_the_option_to_continue() -> None:
    loss = DataLoss("COULD_NOT_READ_OFFSET_RANGE", "Could not read records in offset [3, 5).")
    told = reason(RuntimeError(FAILED_TASK.format(f"RuntimeError: {loss}")))
    assert "set the source option" not in told
    assert told.endswith(
        "With --skip-lost, `kraft spark archive` and `mirror` continue after the lost records. Reason: Could not "
        "read records in offset [3, 5)."
    )


def test_names_are_quoted_and_names_spark_would_drop_are_refused(tmp_path: Path) -> None:
    assert literal(Path("/a,b/{c}[d]*?\\")) == "/a,b/\\{c\\}\\[d\\]\\*\\?\\\\"
    for name in ("_a", ".a", "a._COPYING_"):
        (tmp_path / name).touch()
        with pytest.raises(JobFailed, match="another name"):
            source_files("text", tmp_path / name)
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a").touch()
    assert source_files("csv", tmp_path).by_columns
    assert not source_files("text", tmp_path).by_columns
    (tmp_path / "b").touch()
    with pytest.raises(JobFailed, match="files beside them"):
        source_files("csv", tmp_path)


def test_a_completely_archived_batch_is_not_changed(tmp_path: Path) -> None:
    """Overwriting begins with deleting, and what the log has lost meanwhile would be lost here, too."""
    frame: Any = None  # Nothing may be done with it.
    whole = tmp_path / "batch=00000003"
    whole.mkdir()
    (tmp_path / "_writing").mkdir()
    layout = Layout(staging=str(tmp_path / "_writing"), by=("day", "partition"), codec="snappy", int96=True)
    with pytest.raises(AttributeError):
        BatchFiles(tmp_path, layout, DeadLetters(Access("127.0.0.1:9092"), None))(frame, 3)
    (whole / "_SUCCESS").touch()
    BatchFiles(tmp_path, layout, DeadLetters(Access("127.0.0.1:9092"), None))(frame, 3)
