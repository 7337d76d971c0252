"""What `kraft spark` writes of a comparison, and says on its way. Without Spark."""

from __future__ import annotations

import socket

import pytest

from kraft.cli.admin.app import main
from kraft.cli.admin.output import show
from kraft.cli.admin.records.spark import verdict_tables
from kraft.cli.admin.records.spark_running import Printer, duration, left_seconds
from kraft.spark.jobs.running import Notice, Progress, Work
from kraft.spark.jobs.tally import Kind, Tally, verdict


def test_a_comparison_reports_differences_and_left_out_records(capsys: pytest.CaptureFixture[str]) -> None:
    tallies = [
        Tally(0, 0, Kind.GONE_LEFT, 5, 0, 5, 0, None, 0),
        Tally(0, 0, Kind.LEFT_ONLY, 2, 2, 0, 7, 7, None),
        Tally(0, 0, Kind.SAME, 3, 3, 3, 5, 5, 5),
    ]
    summary = {"job": "verify", "topic": "t", **verdict(tallies, "partition and offset", aligned=False)}
    show(summary, verdict_tables(summary), None)
    found = capsys.readouterr().out
    assert "agree\tno\ncompared by\tpartition and offset\ncompared\t3\n" in found
    assert "left out count\t5\nrecords\t5\nother records\t8\n" in found
    assert "# differences\nPARTITION\tDIFFERENCES\tFIRST-OFFSET\tOTHER-OFFSET\n0\t2\t7\t-\n" in found
    assert (
        "# left out\nPARTITION\tLEFT-OUT\tHELD-BY\tFIRST-OFFSET\tWHY\n0\t5\tother\t0\tretention of the topic\n" in found
    )


def test_sides_that_agree_completely_are_reported_as_facts_only() -> None:
    (facts,) = verdict_tables(
        verdict([Tally(0, 0, Kind.SAME, 3, 3, 3, 5, 5, 5)], "place in the partition", aligned=True)
    )
    assert ("agree", True) in facts.rows


def test_the_configurations_of_a_topic_are_printed_as_one_fact() -> None:
    summary = {"configs": {"a": "1", "b": "2"}, "differences": [], "left_out": []}
    assert verdict_tables(summary)[0].rows == [("configs", "a=1, b=2")]


class Clock:
    """Seconds, as a test sets them."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def said_of(
    told: list[tuple[float, Notice | Progress | Work]], capsys: pytest.CaptureFixture[str], *, quiet: bool = False
) -> str:
    clock = Clock()
    printer = Printer(quiet, now=clock)
    for seconds, each in told:
        clock.now += seconds
        printer.say(each)
    return capsys.readouterr().err


def test_warnings_are_always_printed_and_other_lines_unless_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[float, Notice | Progress | Work]] = [
        (0, Notice("created")),
        (0, Notice("shorter", is_warning=True)),
        (0, Progress(0, 0)),
        (1, Progress(1, 1000, 500.0, 20)),
        (9, Progress(1, 1000, 500.0, 20)),
        (9, Progress(2, 1500)),
    ]
    assert said_of(told, capsys) == (
        "created\nwarning: shorter\n"
        "batch 1: 1,000 records, 500 a second, 20 offsets behind\nbatch 2: 1,500 records, 0 a second\n"
    )
    assert said_of(told, capsys, quiet=True) == "warning: shorter\n"


def test_the_start_of_work_is_printed_immediately_and_progress_every_few_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told: list[tuple[float, Notice | Progress | Work]] = [
        (0, Work("starting Spark")),
        (1, Work("checking files")),
        (1, Work("checking files", 1, 8)),
        (4, Work("checking files", 5, 8)),
        (1, Work("writing", 1, 2)),
        (0, Progress(1, 100, 50.0, share=(1 << 20, 4 << 20))),
        (3, Work("writing", 1, 4)),
        (2, Progress(2, 200, 50.0, share=(2 << 20, 4 << 20))),
        (1, Progress(3, 300, 50.0, share=(3 << 20, 4 << 20))),
    ]
    assert said_of(told, capsys).splitlines() == [
        "starting Spark",
        "checking files",
        "checking files, 5 of 8 tasks",
        "writing, 1 of 2 tasks",
        "batch 1: 100 records, 50 a second, 1.0 MiB of 4.0 MiB; next: 1 of 2 tasks",
        "batch 2: 200 records, 50 a second, 2.0 MiB of 4.0 MiB, about 10 s left; next: 1 of 4 tasks",
    ]


def test_the_remaining_share_is_printed_where_the_total_is_known() -> None:
    assert left_seconds(Progress(2, 100, 1.0, behind=300), None, 10.0) == 60
    assert left_seconds(Progress(2, 100), None, 10.0) == 0
    assert left_seconds(Progress(1, 100, behind=300), None, 0.0) == 0
    assert [duration(each) for each in (9, 75, 3720)] == ["9 s", "1 min 15 s", "1 h 2 min"]


def test_progress_on_a_terminal_is_drawn_and_erased(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer(False, is_terminal=True)
    printer.say(Work("starting Spark"))
    printer.say(Notice("created [topic]"))
    printer.say(Progress(1, 100, 50.0, share=(1, 4)))
    printer.close()
    printer.close()
    assert "created [topic]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["ingest", "no-such-place", "--topic", "t"], 3, "no-such-place does not exist"),
        (["verify", "t", "--with-archive", "no-such-place"], 3, "no-such-place does not exist"),
        (["archive", "t", __file__], 2, "is a file"),
    ],
)
def test_an_unusable_path_is_reported_before_spark_starts(
    arguments: list[str],
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("kraft.cli.admin.records.spark.run", lambda *_: pytest.fail("Spark is started"))
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["spark", *arguments]) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("port", ["x", "70000", "host", "127.0.0.1:x"])
def test_a_metrics_port_that_is_no_address_is_rejected(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "compact", ".", "--metrics-port", port]) == 2
    assert "--metrics-port" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["ingest", ".", "-t", "t"], ["archive", "t", "d"], ["mirror", "t", "--to", "h:1"]])
def test_a_metrics_port_in_use_ends_the_job_before_anything_is_checked(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["spark", *command, "--metrics-port", place]) == 1
    told = f"kraft: metrics cannot be served at {place} (Address already in use): give another --metrics-port\n"
    assert capsys.readouterr().err == told
