"""A run is ok, a violation, or proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from jepsen.checker.operations import FaultInjected, Operation, Phase, Send
from jepsen.cli import main, summary
from jepsen.history import Recorder, RunFacts, Sample
from jepsen.judges.verdict import judge, judge_file
from jepsen.report import render
from tests.unit.jepsen.histories import final, load, phases, poll, run, sample, send


def word(operations: list[Operation], **options: object) -> tuple[str, str]:
    found = judge(run(*operations, **options))  # type: ignore[arg-type]
    return found.word, "; ".join([*found.findings, *found.reasons])


def test_a_run_with_load_leader_changes_and_faults_is_ok() -> None:
    assert word(load()) == ("ok", "")
    assert str(judge(run(*load()))) == "verdict: ok acked=100 checked=200 lost=0 unseen=0"


def test_a_lost_record_is_a_violation() -> None:
    found = judge(run(*load(), send("gone", 100, began=24.0)))
    assert (found.word, found.lost, found.exit_code) == ("violation", 1, 1)


def test_too_little_load_is_invalid() -> None:
    found = judge(run(*phases(), send("v", 0), poll(0, (0, "v")), final((0, "v"))))
    assert (found.word, found.exit_code) == ("invalid", 2)
    assert "1 records were acknowledged under faults" in found.reasons[0]


def test_a_run_without_leader_changes_is_invalid() -> None:
    assert word(load(), samples=[sample(5.0)])[0] == "invalid"


def test_a_fault_without_effect_is_invalid() -> None:
    quiet = FaultInjected(process="nemesis", began=7.0, ended=8.0, kind="mute-leader", bit=False)
    assert word([*load(), quiet]) == ("invalid", "no fault of the kind mute-leader bit")


def test_a_run_without_faults_is_invalid() -> None:
    assert word([each for each in load() if not isinstance(each, FaultInjected)]) == (
        "invalid",
        "no fault was injected",
    )


def test_an_unfinished_run_is_invalid() -> None:
    assert word([each for each in load() if not isinstance(each, Phase)])[0] == "invalid"


def test_unread_records_are_counted() -> None:
    assert judge(run(*[each for each in load() if each.OP != "poll"])).unseen == 100


def test_the_worst_verdict_of_several_counts() -> None:
    good, bad, void = judge(run(*load())), judge(run(*load(), send("gone", 100, began=24.0))), judge(run())
    assert summary([good, void]).word == "invalid"
    assert summary([good, void, bad]).word == "violation"
    assert str(summary([good, good])) == "verdict: ok acked=200 checked=400 lost=0 unseen=0"


def test_a_recorded_history_file_is_judged_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    recorder = Recorder(
        path, RunFacts(target="kraft", workload="producers", plan="power-all", seed=1, seconds=1.0, flush=True)
    )
    pending = recorder.begin(Send(process="q", began=1.0, topic="events", partition=0, values=["unanswered"]))
    for operation in load():
        recorder.done(operation)
    for each in (sample(5.0), sample(40.0, 1), sample(60.0, 2), Sample(at=61.0)):
        recorder.sample(each)
    recorder.power_loss([1, 2])
    recorder.close()
    assert pending.ended is None
    assert judge_file(path).word == "ok"
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out == "verdict: ok acked=100 checked=200 lost=0 unseen=0\n"


def test_the_report_contains_what_was_done_and_found() -> None:
    judged = run(*load(), send("gone<script>", 100, began=24.0))
    page = render(judged, judge(judged))
    assert "verdict: violation" in page
    assert "gone&lt;script&gt; was acknowledged" in page
    assert "power-all: " in page
    assert page.count("<svg") == 4


def test_a_record_first_read_over_a_minute_after_healing_is_unseen() -> None:
    """Faults end at 20 s."""
    unread, records = [each for each in load() if each.OP != "poll"], [(number, f"v{number}") for number in range(100)]
    soon = [poll(0, records[0], began=6.0), poll(1, records[1], began=25.0)]
    early, late = ([*unread, *soon, poll(2, *records[2:], began=at)] for at in (79.0, 81.0))
    assert word(early) == ("ok", "")
    found = judge(run(*late))
    # The last ten were acknowledged more than a second after healing, and have their minute from then.
    assert (found.word, found.unseen) == ("violation", 88)
    assert "88 acknowledged records were seen by no reader within 60 s of healing" in found.findings[0]
