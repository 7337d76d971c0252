"""What runs came by is counted by what each operation uses and what struck shortly before or during it."""

from __future__ import annotations

from pathlib import Path

from jepsen.checker.history import History
from jepsen.checker.operations import Commit, FaultInjected, Poll, Send, ShareStart, TopicChange
from jepsen.simulate import VISITS_HEADING, write_visits
from jepsen.simulation.visits import FAULTS, SETTINGS, Moment, Visits, count, deserted, moments, read, table

OF_TOPIC = {"": ("RF 3",), "piped": ("RF 5",)}
MOVED = frozenset(("events",))


def send(began: float, ended: float, process: str = "producer-0", topic: str = "events", **more: int) -> Send:
    return Send(process=process, began=began, ended=ended, topic=topic, partition=0, values=["a"], **more)


def counted(*operations: Send | Poll | Commit | ShareStart | TopicChange, struck: tuple[Moment, ...] = ()) -> Visits:
    history = History()
    for operation in operations:
        history.add(operation)
    return count(history, struck, ("flush 1",), OF_TOPIC, MOVED)


def test_an_operation_counts_under_a_fault_injected_shortly_before_or_during_it() -> None:
    struck = (Moment("kill", 10.0),)
    before, during, after, late = send(8.0, 9.0), send(9.0, 10.5), send(14.9, 15.0), send(15.1, 15.2)
    assert counted(before, during, after, late, struck=struck)["plain produce", "kill"] == 2


def test_an_operation_during_two_equal_faults_counts_once() -> None:
    struck = (Moment("kill", 10.0), Moment("kill", 10.1))
    assert counted(send(10.0, 11.0), struck=struck)["plain produce", "kill"] == 1


def test_features_of_an_operation_follow_from_its_client_and_kind() -> None:
    found = counted(
        send(0, 1),
        send(0, 1, producer_id=7),
        send(0, 1, "pipeline-1", "piped"),
        send(0, 1, "transactor-0", "paid"),
        Poll(process="session-reader", began=0, topic="piped", partition=0, position=0),
        Poll(process="reader-0", began=0, topic="compacted", partition=0, position=0),
        Commit(process="member-0", began=0, topic="events", partition=0, group="group", offset=1),
        ShareStart(process="share-starts", began=0, topic="paid", partition=0, group="share-group"),
        TopicChange(process="anew", began=0, topic="anew/1"),
    )
    assert {feature: number for (feature, column), number in found.items() if column == "flush 1"} == {
        "plain produce": 1,
        "idempotent produce": 1,
        "pipelined produce": 1,
        "transactions": 1,
        "fetch sessions": 1,
        "plain fetch": 1,
        "compaction": 1,
        "classic groups": 1,
        "share groups": 1,
        "reassignment": 3,
        "topics recreated": 1,
    }
    assert found["pipelined produce", "RF 5"] == found["plain produce", "RF 3"] == 1
    assert not found["plain produce", "RF 5"]


def test_only_effective_faults_are_counted_and_coordinator_faults_count_twice() -> None:
    history = History()
    for kind, role, bit in (("kill", "coordinator", True), ("stop", "data leader", False), ("isolate", "any", True)):
        history.add(FaultInjected(process="1", began=3.0, kind=kind, role=role, bit=bit))
    assert list(moments(history)) == [Moment("kill", 3.0), Moment("coordinator gone", 3.0), Moment("cut", 3.0)]


def test_counts_written_to_a_page_are_read_back(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{VISITS_HEADING}\n\n- a reason\n\n## Next\n\ntext\n")
    visits = Visits({("transactions", "kill"): 5, ("plain produce", "RF 5"): 2})
    for _ in range(2):
        write_visits(page, visits, 20)
        text = page.read_text()
        assert {cell: number for cell, number in read(text.splitlines()).items() if number} == visits
        assert text.count("- a reason") == 1
        assert text.endswith("## Next\n\ntext\n")
    assert len(list(table(visits, (*FAULTS, *SETTINGS)))) == len(FAULTS) + len(SETTINGS) + 2


def test_a_cell_that_is_no_longer_visited_is_reported() -> None:
    known = Visits({("transactions", "kill"): 5, ("plain produce", "kill"): 5, ("compaction", "kill"): 0})
    assert deserted(known, Visits({("transactions", "kill"): 1})) == ["plain produce x kill"]
