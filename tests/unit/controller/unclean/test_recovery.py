"""kraft/controller/unclean/recovery.py: who leads when nobody who may is left, by strategy."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest

from kraft.controller.replication_control import leader_and_isr
from kraft.controller.unclean.election_facts import Lost, Recovered, fields_of
from kraft.controller.unclean.log_comparison import LogEnd
from kraft.controller.unclean.recovery import UncleanRecoveries
from kraft.metadata.image.partition_registration import RECOVERED, RECOVERING
from kraft.world.steps import at_once
from tests.unit.controller.pure_cluster import PureCluster

WAIT = 300.0
BALANCED = "balanced"
AGGRESSIVE = "aggressive"


class Recovering:
    """A cluster with one partition `t`-0 on brokers 1 to 3, and the recoveries of its controller."""

    def __init__(self, strategy: str, *, elr: bool = True, min_isr: int = 1) -> None:
        self.cluster = PureCluster(1, 2, 3, elr=elr)
        self.cluster.topic("t", [1, 2, 3], min_insync_replicas=str(min_isr))
        self.cluster.configure(2, "t", kraft_unclean_recovery_strategy=strategy)
        self.recoveries = UncleanRecoveries(WAIT)
        self.now = 0.0
        self.ends: dict[int, LogEnd] = {}
        self.dead: list[int] = []

    def lose(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.cluster.fence(broker_id)

    def asked(self) -> list[int]:
        return [ask.broker_id for ask in self.recoveries.questions(self.cluster.view, self.now).asks]

    def round(self) -> tuple[Recovered, ...]:
        """Ask whoever is to be asked; those in `ends` answer, those in `dead` prove to be dead."""
        for _ in range(2):
            questions = self.recoveries.questions(self.cluster.view, self.now)
            for ask in questions.asks:
                if ask.broker_id in self.ends:
                    ends = {epoch: LogEnd(epoch, 0) for epoch in ask.epochs}
                    self.recoveries.answered(ask, self.ends[ask.broker_id], ends)
        self.recoveries.found_dead(
            [(broker_id, epoch) for broker_id, epoch in questions.deaths if broker_id in self.dead]
        )
        return self.cluster.apply(self.recoveries.decide(self.cluster.view, self.now))

    @property
    def leader(self) -> int:
        return self.cluster.partition("t").leader


def test_without_a_strategy_replicas_are_queried_and_no_leader_is_elected() -> None:
    """An operator is shown what an unclean election would choose and lose."""
    run = Recovering("none")
    run.lose(3, 2, 1)
    assert run.cluster.partition("t").elr == (1,)
    run.cluster.unfence(3)
    run.cluster.unfence(2)
    assert run.asked() == [2, 3]
    run.ends = {2: LogEnd(0, 7), 3: LogEnd(0, 5)}
    assert run.round() == ()
    run.now = 10 * WAIT
    assert run.round() == ()
    (waiting,) = run.recoveries.waiting(run.cluster.view, run.now)
    assert (waiting.since, waiting.until, waiting.members, waiting.awaited) == (0.0, None, (1,), (1,))
    assert (waiting.ends, waiting.candidate, waiting.lost) == (
        ((2, LogEnd(0, 7)), (3, LogEnd(0, 5))),
        2,
        (),
    )
    assert run.recoveries.candidate(run.cluster.view, waiting.key) == 2
    assert run.recoveries.take_due() == inf, "nothing is looked at again before something changes"


def test_records_that_only_another_log_has_are_reported_as_lost_by_the_candidate() -> None:
    run = Recovering("none")
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    run.cluster.unfence(2)
    run.ends = {2: LogEnd(3, 10), 3: LogEnd(2, 99)}
    run.round()
    (waiting,) = run.recoveries.waiting(run.cluster.view, run.now)
    assert (waiting.candidate, waiting.lost) == (2, (Lost(3, 0, 99),)), "2 tells that its epoch 2 ends at 0"


def test_a_silent_replica_is_queried_again_with_backoff_and_immediately_after_a_restart() -> None:
    run = Recovering(BALANCED, min_isr=2)
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    asked_at = []
    while run.now < 120.0:
        for ask in run.recoveries.questions(run.cluster.view, run.now).asks:
            run.recoveries.unanswered(ask, run.now)
            asked_at.append(run.now)
        run.now += 0.25
    pauses = [later - earlier for earlier, later in pairwise(asked_at)]
    assert pauses[:9] == [0.25, 0.25, 0.25, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    assert set(pauses[9:]) == {8.0}
    run.cluster.register(3, incarnation=33)
    run.cluster.unfence(3)
    assert run.asked() == [3], "a new incarnation is asked at once"


def test_the_next_query_of_a_silent_replica_is_scheduled() -> None:
    run = Recovering("none")
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    (ask,) = run.recoveries.questions(run.cluster.view, run.now).asks
    run.recoveries.unanswered(ask, 1.0)
    assert run.recoveries.take_due() == 1.25
    run.now = 1.1
    assert run.asked() == []
    assert run.recoveries.take_due() == 1.25


@pytest.mark.parametrize("elr", [True, False])
def test_aggressive_elects_the_longest_log_of_the_answers_without_waiting(elr: bool) -> None:
    run = Recovering(AGGRESSIVE, elr=elr)
    run.lose(3, 2, 1)
    run.cluster.unfence(2)
    run.cluster.unfence(3)
    assert run.asked() == [2, 3]
    assert run.round() == ()
    run.ends = {2: LogEnd(0, 10), 3: LogEnd(0, 12)}
    (report,) = run.round()
    after = run.cluster.partition("t")
    assert (after.leader, after.isr, after.elr, after.last_known_elr, after.leader_recovery_state) == (
        3,
        (3,),
        (),
        (),
        RECOVERING,
    )
    assert (report.leader, report.end, report.ends, report.silent) == (
        3,
        LogEnd(0, 12),
        ((2, LogEnd(0, 10)), (3, LogEnd(0, 12))),
        (1,),
    )
    assert (report.former_leaders, report.former_epoch, report.leader_epoch) == (
        (1,),
        after.leader_epoch - 1,
        after.leader_epoch,
    )
    assert run.asked() == []


def test_a_later_epoch_beats_a_longer_log_and_assignment_order_breaks_ties() -> None:
    run = Recovering(AGGRESSIVE)
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    run.cluster.unfence(2)
    run.ends = {2: LogEnd(3, 10), 3: LogEnd(2, 99)}
    assert run.round()[0].leader == 2
    run = Recovering(AGGRESSIVE)
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    run.cluster.unfence(2)
    run.ends = {2: LogEnd(2, 10), 3: LogEnd(2, 10)}
    assert run.round()[0].leader == 2


def test_balanced_waits_for_each_last_known_replica_that_may_be_alive() -> None:
    run = Recovering(BALANCED, min_isr=2)
    run.lose(3)
    run.lose(2)
    run.lose(1)
    assert run.cluster.partition("t").elr == (1, 2)
    run.cluster.unfence(3)
    run.ends = {3: LogEnd(0, 5)}
    assert run.round() == ()
    run.dead = [1]
    assert run.round() == (), "2 may live"
    run.dead = [1, 2]
    assert run.round()[0].leader == 3


def test_balanced_waits_no_longer_than_its_timeout() -> None:
    run = Recovering(BALANCED)
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    run.ends = {3: LogEnd(0, 5)}
    assert run.round() == ()
    run.now = WAIT - 0.1
    assert run.round() == ()
    run.now = WAIT
    assert run.round()[0].leader == 3


def test_balanced_queries_last_known_replicas_that_returned_without_eligibility() -> None:
    """All restart uncleanly: nobody is eligible, but each may have the most."""
    run = Recovering(BALANCED, min_isr=2)
    run.lose(3, 2, 1)
    for broker_id in (1, 2):
        run.cluster.register(broker_id, incarnation=2)
    assert run.cluster.partition("t").last_known_elr == (1, 2)
    run.cluster.unfence(2)
    assert run.leader == -1, "the last known leader is not waited for alone, nor elected unasked"
    run.ends = {2: LogEnd(0, 9)}
    assert run.round() == ()
    run.cluster.unfence(1)
    run.ends[1] = LogEnd(0, 8)
    assert run.round()[0].leader == 2


def test_an_eligible_replica_that_returns_leads_without_recovery() -> None:
    run = Recovering(BALANCED, min_isr=2)
    run.lose(3, 2, 1)
    run.asked()
    run.cluster.unfence(2)
    assert (run.leader, run.cluster.partition("t").leader_recovery_state) == (2, RECOVERED)
    run.ends = {2: LogEnd(0, 1)}
    assert run.round() == ()


def test_an_answer_of_a_former_broker_incarnation_is_ignored() -> None:
    run = Recovering(AGGRESSIVE)
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    (ask,) = run.recoveries.questions(run.cluster.view, 0.0).asks
    run.cluster.register(3, incarnation=2)
    run.cluster.unfence(3)
    run.recoveries.answered(ask, LogEnd(0, 50))
    assert run.cluster.apply(run.recoveries.decide(run.cluster.view, 0.0)) == ()
    assert run.asked() == [3]


def test_an_answer_about_a_partition_that_changed_since_is_ignored() -> None:
    run = Recovering(AGGRESSIVE, min_isr=2)
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    (ask,) = run.recoveries.questions(run.cluster.view, 0.0).asks
    run.cluster.register(2, incarnation=2)
    run.recoveries.answered(ask, LogEnd(0, 50))
    assert run.cluster.partition("t").elr == (1,)
    assert run.cluster.apply(run.recoveries.decide(run.cluster.view, 0.0)) == ()


def test_a_broker_that_answered_and_died_does_not_lead() -> None:
    run = Recovering(AGGRESSIVE)
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    (ask,) = run.recoveries.questions(run.cluster.view, 0.0).asks
    run.recoveries.answered(ask, LogEnd(0, 50))
    run.cluster.fence(3)
    assert run.cluster.apply(run.recoveries.decide(run.cluster.view, 0.0)) == ()


def test_no_recovery_starts_before_the_session_of_a_replica_that_may_return_has_ended() -> None:
    run = Recovering(AGGRESSIVE)
    run.lose(3, 2)
    run.cluster.held = frozenset({1})
    run.lose(1)
    run.cluster.unfence(3)
    assert run.asked() == []
    run.cluster.held = frozenset()
    assert run.asked() == [3]


def test_the_recovery_strategy_overrides_unclean_leader_election_enable() -> None:
    run = Recovering(BALANCED)
    run.cluster.configure(2, "t", unclean_leader_election_enable="true")
    run.lose(3, 2, 1)
    run.cluster.unfence(3)
    assert run.leader == -1
    run.cluster.configure(2, "t", kraft_unclean_recovery_strategy="none")
    run.cluster.replay(*at_once(leader_and_isr.leaderless_after_hold(run.cluster.view)))
    assert run.leader == 3


def test_the_recovery_strategy_may_be_set_for_the_cluster() -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2])
    cluster.configure(4, "", kraft_unclean_recovery_strategy=AGGRESSIVE)
    assert cluster.view.recovery_strategy(cluster.image.topics.id_by_name["t"]) == AGGRESSIVE


def test_the_recovery_deadline_restarts_with_each_leaderless_period() -> None:
    run = Recovering(BALANCED, min_isr=2)
    run.lose(3, 2, 1)
    run.asked()
    run.now = WAIT - 1
    run.cluster.unfence(2)
    run.lose(2)
    run.cluster.unfence(3)
    run.ends = {3: LogEnd(0, 5)}
    run.now = WAIT
    assert run.round() == ()
    run.now = 2 * WAIT
    assert run.round()[0].leader == 3


def test_an_election_report_is_json() -> None:
    report = Recovered("t", 0, BALANCED, 3, 5, 4, (1, 2), LogEnd(2, 12), ((3, LogEnd(2, 12)),), (1, 2))
    assert fields_of(report) == {
        "topic": "t",
        "partition": 0,
        "strategy": "balanced",
        "leader": 3,
        "leader_epoch": 5,
        "former_epoch": 4,
        "last_known": [1, 2],
        "last_epoch": 2,
        "end_offset": 12,
        "ends": [{"replica": 3, "last_epoch": 2, "end_offset": 12}],
        "silent": [1, 2],
    }


def test_a_replica_without_an_answer_is_not_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted defect."""
    recovering = Recovering(AGGRESSIVE)
    recovering.lose(1, 2, 3)
    recovering.cluster.unfence(1)
    recovering.ends = {1: LogEnd(0, 5)}
    monkeypatch.setattr("kraft.controller.unclean.recovery.choose", lambda *arguments: 2)
    with pytest.raises(AssertionError, match=r"2 of .* did not answer"):
        recovering.round()
