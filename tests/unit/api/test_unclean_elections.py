"""api/kraft_http/routers/elections.py: how a report of an unclean election is shown."""

from __future__ import annotations

from typing import Any

from kraft_http.ports import UncleanElectionFacts
from kraft_http.routers.elections import shown

from kraft.common.config.dynamic.loss_reports import Loss, Report
from kraft.controller.unclean.election_facts import Recovered, fields_of
from kraft.controller.unclean.log_comparison import LogEnd

FACTS = {
    "leader": 2,
    "former_leader": -1,
    "former_epoch": 4,
    "former_isr": [1],
    "former_elr": [],
    "last_known": [],
    "replicas": [1, 2, 3, 4, 5],
    "time_ms": 0,
}


def states(facts: UncleanElectionFacts) -> list[tuple[int, str, Any]]:
    return [(loss.replica, loss.state, loss.end_offset) for loss in shown(facts).losses]


def test_an_unclean_election_shows_the_state_of_each_replica_but_the_leader() -> None:
    report = Report(0, 5, FACTS, {1: Loss(5, 9, 7, 6, 1_500), 3: Loss(0, 0, 0, 6, 2_000)})
    facts = UncleanElectionFacts(topic="t", report=report, gone=(4,))
    assert states(facts) == [(1, "lost", 9), (3, "nothing", None), (4, "gone", None), (5, "awaited", None)]
    assert (shown(facts).complete, shown(facts).time, shown(facts).losses[0].time) == (
        False,
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:01.500Z",
    )
    assert shown(UncleanElectionFacts(topic="t", report=report, gone=(4, 5))).complete


def test_a_recovery_shows_the_log_ends_it_was_based_on() -> None:
    recovered = Recovered("t", 0, "balanced", 2, 5, 4, (1,), LogEnd(3, 7), ((2, LogEnd(3, 7)), (3, LogEnd(3, 6))), (1,))
    election = {
        **FACTS,
        **{
            name: value
            for name, value in fields_of(recovered).items()
            if name not in ("topic", "partition", "leader_epoch")
        },
    }
    document = shown(UncleanElectionFacts(topic="t", report=Report(0, 5, election, {}))).model_dump()
    assert (
        document["strategy"],
        document["end_offset"],
        document["last_epoch"],
        document["silent"],
        document["last_known"],
    ) == ("balanced", 7, 3, [1], [1])
    assert document["ends"] == [
        {"replica": 2, "last_epoch": 3, "end_offset": 7},
        {"replica": 3, "last_epoch": 3, "end_offset": 6},
    ]
