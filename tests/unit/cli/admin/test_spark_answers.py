"""What `kraft spark` writes of a comparison, and says on its way. Without Spark."""

from __future__ import annotations

import pytest

from kraft.cli.admin.app import main
from kraft.cli.admin.output import show
from kraft.cli.admin.spark import verdict_tables
from kraft.cli.admin.spark_running import Printer
from kraft.spark.jobs.running import Notice, Progress
from kraft.spark.jobs.tally import Kind, Tally, verdict


def test_a_comparison_is_told_with_what_differs_and_what_was_left_out(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_where_sides_agree_whole_there_are_facts_alone() -> None:
    (facts,) = verdict_tables(
        verdict([Tally(0, 0, Kind.SAME, 3, 3, 3, 5, 5, 5)], "place in the partition", aligned=True)
    )
    assert ("agree", True) in facts.rows


def test_configurations_are_one_fact() -> None:
    summary = {"configs": {"a": "1", "b": "2"}, "differences": [], "left_out": []}
    assert verdict_tables(summary)[0].rows == [("configs", "a=1, b=2")]


def test_warnings_are_said_in_any_case_and_the_rest_unless_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    told = [
        Notice("created"),
        Notice("shorter", is_warning=True),
        Progress(0, 0),
        Progress(1, 1000, 500.0, 20),
        Progress(1, 1000, 500.0, 20),
        Progress(2, 1500),
    ]
    for quiet, expected in (
        (
            False,
            "created\nwarning: shorter\n"
            "batch 1: 1,000 records, 500 a second, 20 offsets behind\nbatch 2: 1,500 records, 0 a second\n",
        ),
        (True, "warning: shorter\n"),
    ):
        sayer = Printer(quiet)
        for each in told:
            sayer.say(each)
        assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["ingest", "no-such-place", "--topic", "t"], 3, "no-such-place does not exist"),
        (["verify", "t", "--with-archive", "no-such-place"], 3, "no-such-place does not exist"),
        (["archive", "t", __file__], 2, "is a file"),
    ],
)
def test_a_path_of_no_use_is_told_before_spark_starts(
    arguments: list[str],
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("kraft.cli.admin.spark.run", lambda *_: pytest.fail("Spark is started"))
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["spark", *arguments]) == code
    assert told in capsys.readouterr().err
