"""kraft/controller/unclean/recovery.py under the default policy: nobody leads by having been last."""

from __future__ import annotations

from itertools import permutations, product
from math import inf

import pytest

from kraft.controller.replication_control.elect_leaders import UNCLEAN, elect_leaders
from kraft.controller.unclean.election_facts import Recovered, waiting_fields
from kraft.controller.unclean.log_comparison import LogEnd
from kraft.controller.unclean.recovery import UncleanRecoveries
from kraft.metadata.image.partition_registration import LOST_DIRECTORY, RECOVERED, RECOVERING
from kraft.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.unit.controller.partition_requests import propose, put_replica
from tests.unit.controller.pure_cluster import PureCluster
from tests.unit.controller.unclean.replies import Epochs, ask_round

WAIT = 300.0
RECORDS = 1_000
FULL: Epochs = [0] * RECORDS
EMPTY: Epochs = []


class AllKilled:
    """A partition on brokers 1 to n, all in sync, led by 1; every process is killed. `logs` is what is left."""

    def __init__(
        self, replicas: int = 3, *, min_isr: int = 2, elr: bool = True, order: tuple[int, ...] = (), **configs: str
    ) -> None:
        """`order` is the one in which the controller notices that they are gone."""
        self.brokers = tuple(range(1, replicas + 1))
        self.cluster = PureCluster(*self.brokers, elr=elr)
        self.cluster.topic("t", list(self.brokers), min_insync_replicas=str(min_isr), **configs)
        self.recoveries = UncleanRecoveries(WAIT)
        self.now = 0.0
        self.logs: dict[int, Epochs] = {1: EMPTY, **dict.fromkeys(self.brokers[1:], FULL)}
        self.live: set[int] = set()
        for broker in order or tuple(reversed(self.brokers)):
            self.cluster.fence(broker)

    def back(self, broker: int, *, clean: bool = False) -> None:
        epoch = self.cluster.epoch(broker) if clean else -1
        self.cluster.register(broker, incarnation=self.cluster.epoch(broker) % 200, previous_epoch=epoch)
        self.cluster.unfence(broker)
        self.live.add(broker)

    def gone(self, broker: int) -> None:
        self.cluster.fence(broker)
        self.live.discard(broker)

    def look(self, seconds: float = 0.25) -> tuple[Recovered, ...]:
        self.now += seconds
        return ask_round(self.recoveries, self.cluster, self.now, {each: self.logs[each] for each in self.live})

    @property
    def leader(self) -> int:
        return self.cluster.partition("t").leader


@pytest.mark.parametrize("min_isr", [1, 2])
def test_the_last_leader_is_not_elected_on_a_lost_log_before_other_replicas_are_queried(min_isr: int) -> None:
    """One follower returns, the leader soon after it, the other follower last."""
    run = AllKilled(min_isr=min_isr)
    run.back(2)
    run.look()
    run.back(1)
    assert run.leader == -1, "it is asked first, and so is everybody else"
    assert run.look() == ()
    run.back(3)
    (report,) = run.look()
    assert (report.leader, report.end, report.is_clean) == (2, LogEnd(0, RECORDS), True)
    after = run.cluster.partition("t")
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), RECOVERED), "nothing was lost"


TABLE = [
    (replicas, min_isr, elr, order)
    for replicas, min_isr, elr in product((1, 2, 3), (1, 2), (True, False))
    for order in permutations(range(1, replicas + 1))
]


@pytest.mark.parametrize(("replicas", "min_isr", "elr", "order"), TABLE)
def test_replicas_with_kept_logs_are_elected_in_every_order_of_return(
    replicas: int, min_isr: int, elr: bool, order: tuple[int, ...]
) -> None:
    """Broker 1 led last and has lost its log. With ELR on, one that kept its log leads once all are back. Without
    ELR it is as in Apache Kafka: whoever was last in the ISR leads, whatever it has."""
    run = AllKilled(replicas, min_isr=min_isr, elr=elr)
    for position, broker in enumerate(order):
        run.back(broker)
        run.look()
        if replicas > 1 and elr and position < replicas - 1:
            assert run.leader == -1, "the others are given time"
    expected = 1 if replicas == 1 or not elr else 2
    assert (run.leader, run.cluster.partition("t").leader_recovery_state) == (expected, RECOVERED)


@pytest.mark.parametrize(("min_isr", "order"), [*product((1, 2), permutations((1, 2, 3)))])
def test_a_replica_with_a_kept_log_leads_whichever_broker_was_fenced_last(min_isr: int, order: tuple[int, ...]) -> None:
    run = AllKilled(min_isr=min_isr, order=order)
    for broker in (1, 2, 3):
        run.back(broker)
        run.look()
    assert run.leader in (2, 3)


def test_followers_fenced_out_of_the_isr_are_queried_though_no_record_names_them() -> None:
    run = AllKilled(min_isr=1)
    run.back(1)
    assert run.cluster.partition("t").last_known_elr == (1,)
    run.look()
    run.back(2)
    run.back(3)
    assert run.look()[0].leader == 2


def test_dead_replicas_outside_the_last_isr_are_waited_for_during_one_query_round() -> None:
    run = AllKilled(min_isr=1)
    run.logs[1] = FULL
    run.back(1)
    run.look(0.0)
    assert run.look(1.9) == ()
    (report,) = run.look(0.1)
    assert (report.leader, report.silent, report.is_clean) == (1, (2, 3), False)
    assert run.cluster.partition("t").leader_recovery_state == RECOVERING


def test_a_replica_outside_the_last_isr_is_waited_for_until_its_session_ends() -> None:
    run = AllKilled(min_isr=1)
    run.back(1)
    run.cluster.held = frozenset({2})
    run.look(0.0)
    assert run.look(5.0) == ()
    run.cluster.held = frozenset()
    assert run.look()[0].leader == 1


def test_a_live_replica_outside_the_last_isr_has_one_session_timeout_to_answer() -> None:
    """Every node was killed, and all are back; on a busy machine a follower that kept its log answers late."""
    run = AllKilled(min_isr=1)
    for broker in (2, 3, 1):
        run.back(broker)
    run.live = {1}
    run.look(0.0)
    assert run.look(8.0) == (), "2 and 3 are unfenced, and have not answered yet"
    run.live = {1, 2, 3}
    (report,) = run.look(0.5)
    assert (report.leader, report.is_clean) == (2, True)


def test_a_silent_replica_outside_the_last_isr_is_waited_for_at_most_one_session_timeout() -> None:
    run = AllKilled(min_isr=1)
    for broker in (2, 3, 1):
        run.back(broker)
    run.live = {1}
    run.look(0.0)
    assert run.look(8.9) == ()
    assert run.recoveries.take_due() <= 9.0
    assert run.look(0.1)[0].leader == 1


def test_a_last_isr_member_is_waited_for_while_it_is_down_up_to_the_timeout() -> None:
    run = AllKilled(min_isr=2)
    run.back(2)
    run.back(1)
    run.gone(2)
    run.look(0.0)
    (waiting,) = run.recoveries.waiting(run.cluster.view, run.now)
    assert (waiting.members, waiting.awaited, waiting.since, waiting.until) == ((1, 2), (2,), 0.0, WAIT)
    assert (waiting.ends, waiting.candidate) == (((1, LogEnd(-1, 0)),), 1)
    assert run.look(WAIT - 1) == ()
    run.look(1.0)
    (report,) = run.look(2.0)
    assert (report.leader, report.silent) == (1, (2, 3))


def test_without_an_answer_of_any_last_isr_member_the_wait_is_unbounded() -> None:
    """The time allowed never overrides unclean.leader.election.enable=false."""
    run = AllKilled(min_isr=1)
    run.back(1)
    run.gone(1)
    run.back(2)
    assert run.look(0.0) == ()
    assert run.look(10 * WAIT) == ()
    (waiting,) = run.recoveries.waiting(run.cluster.view, run.now)
    assert (waiting.until, waiting.awaited, waiting.candidate) == (None, (1,), 2)
    run.back(1)
    run.back(3)
    assert run.look()[0].leader == 2


def test_a_last_isr_member_that_is_still_eligible_is_waited_for_without_limit() -> None:
    run = AllKilled(min_isr=2)
    run.back(1)
    run.back(3)
    assert run.cluster.partition("t").elr == (2,)
    assert run.look(0.0) == ()
    assert run.look(10 * WAIT) == ()
    run.back(2, clean=True)
    assert run.leader == 2


def test_a_longer_log_that_does_not_contain_the_last_isr_members_log_does_not_lead() -> None:
    """Figure 8 of the Raft paper: 3 led alone in epoch 3 and acknowledged nothing."""
    run = AllKilled(min_isr=1)
    run.logs = {1: [2] * 10, 2: [2] * 8, 3: [2] * 5 + [3] * 20}
    for broker in (3, 2, 1):
        run.back(broker)
        report = run.look()
    assert (report[0].leader, report[0].is_clean) == (1, False)


def test_of_the_logs_that_contain_the_last_isr_members_log_the_longest_leads() -> None:
    run = AllKilled(min_isr=1)
    run.logs = {1: [2] * 5, 2: [2] * 8, 3: [2] * 6 + [3] * 1}
    for broker in (3, 2, 1):
        run.back(broker)
        report = run.look()
    assert report[0].leader == 3


def test_a_replica_whose_log_cannot_be_compared_counts_as_silent() -> None:
    """A follower of Apache Kafka tells where its log ends, but not to a debugging consumer where an epoch does."""
    run = AllKilled(min_isr=1)
    run.logs[1] = [0] * 10
    run.logs[2] = [0] * 10 + [1] * 5
    run.back(1)
    run.back(2)
    questions = run.recoveries.questions(run.cluster.view, run.now)
    for ask in questions.asks:
        run.recoveries.answered(ask, LogEnd(*{1: (0, 10), 2: (1, 15)}[ask.broker_id]))
    (comparison,) = [ask for ask in run.recoveries.questions(run.cluster.view, run.now).asks if ask.broker_id in (1, 2)]
    assert (comparison.broker_id, comparison.epochs) == (2, (0,))
    run.recoveries.unanswered(comparison, run.now)
    run.live.discard(2)
    run.look(0.0)
    assert run.look(9.0)[0].silent == (2, 3)


def test_a_replica_that_lost_eligibility_stays_a_last_isr_member_until_the_isr_reaches_min_isr() -> None:
    cluster = PureCluster(1, 2, 3, elr=True)
    cluster.topic("t", [1, 2, 3], min_insync_replicas="2")
    for broker in (3, 2):
        cluster.fence(broker)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((1,), (2,))
    cluster.register(2, incarnation=2)
    assert (cluster.partition("t").elr, cluster.partition("t").last_known_elr) == ((), (2,))
    cluster.fence(1)
    assert (cluster.partition("t").elr, cluster.partition("t").last_known_elr) == ((1,), (1, 2))
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").last_known_elr) == (1, (2,))
    cluster.unfence(2)
    propose(cluster, "t", [1, 2])
    assert cluster.partition("t").last_known_elr == ()


def test_unclean_leader_election_enable_true_elects_the_first_live_replica() -> None:
    run = AllKilled(min_isr=2, unclean_leader_election_enable="true")
    run.back(2)
    assert (run.leader, run.cluster.partition("t").leader_recovery_state) == (2, RECOVERING)


def test_a_crash_without_data_loss_causes_no_unclean_election() -> None:
    run = AllKilled(min_isr=2)
    run.logs[1] = FULL
    for broker in (2, 3, 1):
        run.back(broker)
        report = run.look()
    assert (report[0].leader, report[0].is_clean) == (1, True)
    assert run.cluster.image.configs.topic("t").get("kraft.unclean.election.0.2") is None


def test_an_operator_request_during_the_wait_elects_the_best_known_log() -> None:
    """2 is a member and down; of 1, which led last and lost its log, and 3, which kept it, 3 leads."""
    run = AllKilled(min_isr=2)
    run.back(1)
    run.back(2)
    run.gone(2)
    run.back(3)
    assert run.look() == ()
    request = ElectLeadersRequest(
        election_type=UNCLEAN, topic_partitions=[TopicPartitions(topic="t", partitions=[0])], timeout_ms=1_000
    )
    answer = run.cluster.apply(elect_leaders(run.cluster.view, request, run.recoveries.candidate))
    assert answer.replica_election_results[0].partition_result[0].error_code == 0
    assert (run.leader, run.cluster.partition("t").leader_recovery_state) == (3, RECOVERING)


def test_an_operator_request_elects_the_best_log_even_during_an_unbounded_wait() -> None:
    """2 is eligible and down. Of the two that are back, 1 comes first in the assignment and has nothing."""
    run = AllKilled(min_isr=2)
    run.back(1)
    run.back(3)
    assert (run.cluster.partition("t").elr, run.look()) == ((2,), ())
    (waiting,) = run.recoveries.waiting(run.cluster.view, run.now)
    assert (waiting.awaited, waiting.until, waiting.candidate) == ((2,), None, 3)
    request = ElectLeadersRequest(
        election_type=UNCLEAN, topic_partitions=[TopicPartitions(topic="t", partitions=[0])], timeout_ms=1_000
    )
    run.cluster.apply(elect_leaders(run.cluster.view, request, run.recoveries.candidate))
    assert run.leader == 3


def test_only_due_partitions_are_checked_again() -> None:
    run = AllKilled(min_isr=2)
    run.back(2)
    run.back(1)
    run.gone(2)
    run.look(0.0)
    assert run.recoveries.take_due() == 5.0
    run.look(5.0)
    assert run.recoveries.take_due() == WAIT
    run.look(WAIT - 5.0)
    assert run.recoveries.take_due() == WAIT + 2.0
    assert run.recoveries.take_due() == inf


def test_a_wait_is_logged_once_for_each_set_of_awaited_replicas() -> None:
    run = AllKilled(min_isr=2)
    run.logs[1] = [0] * 10
    run.back(2)
    run.back(1)
    run.gone(2)
    run.look(0.0)
    assert not list(run.recoveries.waits_to_tell(run.cluster.view, run.now)), "it has only begun"
    assert run.recoveries.take_due() == 5.0
    run.look(5.0)
    (waiting,) = run.recoveries.waits_to_tell(run.cluster.view, run.now)
    assert waiting_fields(waiting, 1_000_000) == {
        "topic": "t",
        "partition": 0,
        "strategy": "none",
        "members": [1, 2],
        "awaited": [2],
        "since_ms": 1_000_000,
        "until_ms": 1_300_000,
        "ends": [{"replica": 1, "last_epoch": 0, "end_offset": 10}],
        "candidate": 1,
        "lost": [],
        "command": "kraft elections unclean t-0",
    }
    run.look(5.0)
    assert not list(run.recoveries.waits_to_tell(run.cluster.view, run.now))


@pytest.mark.parametrize("others", [FULL, FULL[:-1]])
def test_a_damaged_log_reports_its_former_end_and_does_not_lead(others: Epochs) -> None:
    """Broker 1 has told that its replica is lost, and yet answers: the end that its log had before the damage."""
    run = AllKilled()
    run.logs = {1: FULL, 2: others, 3: others}
    for broker in (1, 2, 3):
        run.back(broker)
    assert put_replica(run.cluster, 1, LOST_DIRECTORY) == 0
    run.look()
    run.look()
    assert run.leader == (2 if others is FULL else -1), "who lacks a part waits for a person"
