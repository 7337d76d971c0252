"""What `kraft spark` refuses before Spark starts, which takes seconds: inputs that are invalid."""

from __future__ import annotations

import fcntl
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kraft.cli.admin.app import main
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_response import ApiVersion
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest
from kraft.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from kraft.security.acls import Operation
from kraft.spark.source.permissions import NOT_TOLD
from tests.unit.spark.fake_cluster import FakeCluster


class GuardedCluster(FakeCluster):
    """`operations` are those that this user may do to the topics that are named; to others, all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **topics: int) -> None:
        super().__init__(monkeypatch, **topics)
        self.operations: dict[str, int] = {}
        self.coordinator_code = 0
        self.policies: dict[str, str] = {}

    def on_apiversions(self, request: Any) -> Any:
        answer = super().on_apiversions(request)
        low, high = DescribeConfigsRequest.VALID_VERSIONS
        answer.api_keys.append(ApiVersion(api_key=DescribeConfigsRequest.API_KEY, min_version=low, max_version=high))
        return answer

    def on_describeconfigs(self, _: Any) -> Any:
        return DescribeConfigsResponse(results=[DescribeConfigsResult()])

    def on_metadata(self, request: Any) -> Any:
        answer = super().on_metadata(request)
        answer.cluster_id = "c"
        for each in answer.topics:
            each.topic_authorized_operations = self.operations.get(each.name, NOT_TOLD)
        return answer

    def on_findcoordinator(self, request: Any) -> Any:
        answer = super().on_findcoordinator(request)
        answer.error_code = self.coordinator_code
        return answer


Refused = Callable[..., str]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> GuardedCluster:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", "h:1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-home"))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)
    return GuardedCluster(monkeypatch, t=2)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must end, with this code and one line, without Spark."""
    monkeypatch.setattr("kraft.spark.jobs.session.spark_session", lambda *_: pytest.fail("Spark is started"))

    def run(code: int, *arguments: str) -> str:
        capsys.readouterr()
        assert main(["spark", *arguments]) == code
        said = capsys.readouterr()
        assert not said.out
        assert said.err.count("\n") == 1, said.err
        return said.err

    return run


@pytest.fixture
def lines(tmp_path: Path) -> str:
    (tmp_path / "lines.json").write_text('{"id": 1}\n{"id": 2}\n')
    return str(tmp_path / "lines.json")


def jobs(lines: str, directory: Path) -> list[tuple[str, ...]]:
    return [
        ("ingest", lines, "--topic", "t"),
        ("archive", "t", str(directory)),
        ("mirror", "t", "--to", "h:1", "--target-topic", "copy"),
        ("mirror", "--topics-pattern", "t", "--to", "h:1"),
        ("verify", "t", "--with-topic", "t"),
    ]


def test_an_unreachable_broker_fails_each_job(
    broker: GuardedCluster, refused: Refused, lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise ConnectionRefusedError("Connection refused")

    monkeypatch.setattr("kraft.spark.client.wire.socket.create_connection", refuse)
    for each in jobs(lines, tmp_path / "archive"):
        assert "no broker can be reached: h:1: Connection refused" in refused(1, *each)
    assert not (tmp_path / "archive").exists()


def test_an_unresponsive_broker_fails_a_job_within_seconds(
    broker: GuardedCluster, refused: Refused, lines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def silent(_: Any, seconds: float) -> Any:
        waited.append(seconds)
        raise TimeoutError("timed out")

    monkeypatch.setattr("kraft.spark.client.wire.socket.create_connection", silent)
    refused(1, "ingest", lines, "--topic", "t", "--bootstrap-server", "a:1,b:1,c:1")
    assert len(waited) == 3
    assert sum(waited) < 3


def test_a_missing_topic_is_reported_by_each_job_that_reads_it(
    broker: GuardedCluster, refused: Refused, tmp_path: Path
) -> None:
    for each in (
        ("archive", "nowhere", str(tmp_path / "a")),
        ("archive", "t", "nowhere", str(tmp_path / "a")),
        ("mirror", "nowhere", "--to", "h:1"),
        ("mirror", "--topics-pattern", "nowhere", "--to", "h:1"),
        ("verify", "nowhere", "--with-topic", "t"),
    ):
        assert "nowhere" in refused(3, *each)


def test_a_topic_that_cannot_be_created_is_reported(broker: GuardedCluster, refused: Refused, lines: str) -> None:
    broker.create_code = ErrorCode.INVALID_REPLICATION_FACTOR
    assert "topic new cannot be created at h:1" in refused(1, "ingest", lines, "--topic", "new")
    broker.create_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "lacks the permission Create on topic new" in refused(1, "ingest", lines, "--topic", "new")
    assert not broker.created


def test_a_missing_permission_is_reported_by_topic(
    broker: GuardedCluster, refused: Refused, lines: str, tmp_path: Path
) -> None:
    broker.operations["t"] = 1 << Operation.DESCRIBE
    ingest, *others = jobs(lines, tmp_path / "archive")
    assert "lacks the permission Write on topic t" in refused(1, *ingest)
    for each in (others[0], others[1], others[3]):
        assert "lacks the permission Read on topic t" in refused(1, *each)
    broker.operations.clear()
    broker.coordinator_code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "Write on transactional ids that start with kraft-spark/" in refused(1, *ingest)


GZIPPED = gzip.compress(b'{"id": 1}\n', mtime=0)


@pytest.mark.parametrize(
    ("name", "content", "options", "told"),
    [
        ("a.csv", b"id,name\n1,x\n", ("--format", "csv"), "there is no column key; the columns are id, name"),
        ("a.txt", b"a line\n", (), "there is no column key; the columns are value"),
        ("a.json", b'{"id": 1}\n\n{"id": 2}\n', ("--format", "json"), "there is no field key in any line"),
        ("a.json", b'{"id": 1}\n' * 2000, ("--format", "json"), "there is no field key in the first 1,000 lines"),
        (
            "a.json.gz",
            gzip.compress(b'{"id": 1}\n', mtime=0),
            ("--format", "json"),
            "there is no field key in any line",
        ),
        ("a.json", b'[{"key": 1}]\n', ("--format", "json"), "a line is not a JSON object: [{"),
        ("a.csv", b"key\n1\n", ("--format", "parquet"), "a.csv is not a readable parquet file"),
        ("a.csv", b"key\n1\n", ("--format", "orc"), "a.csv is not a readable orc file"),
        ("a.csv", b"key\n1\n", ("--format", "avro"), "a.csv is not a readable Avro file"),
    ],
)
def test_a_key_or_format_that_does_not_fit_the_first_records_is_reported(
    broker: GuardedCluster,
    refused: Refused,
    tmp_path: Path,
    name: str,
    content: bytes,
    options: tuple[str, ...],
    told: str,
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(30 if name == "a.csv" else 1):
        (tmp_path / "in" / f"{number or ''}{name}").write_bytes(content)
    assert told in refused(1, "ingest", str(tmp_path / "in"), "--topic", "t", "--key", "key", *options)


def test_columns_come_from_the_first_files_and_their_directories(
    broker: GuardedCluster, refused: Refused, tmp_path: Path
) -> None:
    for day in (1, 2):
        (tmp_path / f"in/day={day}").mkdir(parents=True)
        parquet.write_table(pa.table({f"c{day}": [1]}), tmp_path / f"in/day={day}/a.parquet")
    told = refused(1, "ingest", str(tmp_path / "in"), "--topic", "t", "--key", "key", "--format", "parquet")
    assert "there is no column key; the columns are c1, c2, day" in told


def test_checks_that_only_spark_can_make_are_left_to_spark(broker: GuardedCluster, tmp_path: Path) -> None:
    from kraft.spark.jobs.access import Access
    from kraft.spark.jobs.ingest import Ingest, check_ingest

    for name, content, file_format in (
        ("a.json", b"{'key': 1}\n", "json"),
        ("a.json", b"\n\n", "json"),
        ("a.json", b'{"id": 1}\n{"key": 0}\n', "json"),
        ("a.csv.zst", b"not really", "csv"),
        ("a.csv", b"", "csv"),
    ):
        (tmp_path / name).write_bytes(content)
        at = Access("h:1")
        check_ingest(Ingest(path=str(tmp_path / name), topic="t", at=at, format=file_format, key="key"), {})


def test_a_checkpoint_of_another_job_or_in_use_is_reported(
    broker: GuardedCluster, refused: Refused, lines: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    ingest = ("ingest", lines, "--topic", "t", "--checkpoint", str(state))
    (state / "kraft-job.json").write_text(json.dumps({"job": "mirror"}))
    assert f"{state} belongs to a run with job mirror, but this run has ingest" in refused(1, *ingest)
    (state / "kraft-job.json").write_text("{")
    assert "is damaged" in refused(1, *ingest)
    (state / "kraft-job.json").unlink()
    with (state / "kraft-job.lock").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert f"{state} is in use by another run" in refused(1, *ingest)
    assert "is a file" in refused(1, *ingest[:-1], f"{lines}/state")


def test_a_directory_that_is_no_archive_is_reported(broker: GuardedCluster, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no archive" in refused(3, "compact", str(tmp_path / "empty"))
    assert "holds no archive" in refused(3, "verify", "t", "--with-archive", str(tmp_path / "empty"))
    (tmp_path / "topic=t").mkdir()
    assert "archives of several topics" in refused(1, "archive", "t", str(tmp_path))


def test_a_target_that_does_not_fit_its_source_is_reported(broker: GuardedCluster, refused: Refused) -> None:
    assert "t would be copied to itself" in refused(1, "mirror", "t", "--to", "h:1")
    broker.topics["small"] = broker.topics["t"][:1]
    told = refused(1, "mirror", "t", "--to", "h:1", "--target-topic", "small")
    assert "small has 1 partitions, t has 2: add partitions first" in told
    assert "copied to themselves" in refused(1, "mirror", "--topics-pattern", "t", "--to", "h:1")


def test_a_dry_run_prints_the_plan_without_spark_and_writes_nothing(
    broker: GuardedCluster,
    lines: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("kraft.spark.jobs.session.spark_session", lambda *_: pytest.fail("Spark is started"))
    broker.topics["t"][0].end = 7
    broker.topics["t"][1].end, broker.topics["t"][1].low = 9, 4

    def planned(*arguments: str) -> dict[str, Any]:
        assert main(["spark", *arguments, "--dry-run", "-o", "json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    ingest = planned("ingest", lines, "--topic", "new", "--format", "json", "--bytes-per-batch", "5")
    assert (ingest["files"], ingest["bytes"], ingest["batches"], ingest["creates_topic"]) == (1, 20, 1, True)
    archive = planned("archive", "t", str(tmp_path / "archive"), "--records-per-batch", "5")
    assert (archive["topics"], archive["records_at_most"], archive["batches"]) == (["t"], 12, 3)
    mirror = planned("mirror", "t", "--to", "h:1", "--target-topic", "copy")
    assert (mirror["creates_topics"], mirror["records_at_most"], mirror["batches"]) == (["copy"], 12, 1)
    place = tmp_path / "archived"
    for number in range(4):
        (place / f"batch={number:08d}").mkdir(parents=True)
        (place / f"batch={number:08d}/_SUCCESS").touch()
        (place / f"batch={number:08d}/a.parquet").write_bytes(b"12345")
    compact = planned("compact", str(place))
    assert (compact["batches"], compact["batches_merged"], compact["files"], compact["bytes"]) == (1, 3, 3, 15)
    assert not broker.created
    assert sorted(each.name for each in tmp_path.iterdir()) == ["archived", "lines.json"]
    assert main(["spark", "archive", "nowhere", str(tmp_path / "archive"), "--dry-run"]) == 3


def test_an_unreadable_file_is_reported(
    broker: GuardedCluster, refused: Refused, lines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraft.spark.jobs.early_files.os.access", lambda path, _: not str(path).endswith(".json"))
    assert "lines.json cannot be read" in refused(1, "ingest", lines, "--topic", "t")
