"""Loss is believed when a majority of the nodes say so for a while, and at no other time."""

from __future__ import annotations

from kraft.spark.source.leader_agreement import AGREED_SECONDS, MAJORITY_SECONDS, LeaderAgreement
from kraft.spark.source.leadership import Leader, Views

LEADER = Leader(1, 4)


def views(listed: int, *told: Leader | None) -> Views:
    return Views(listed, dict(enumerate(told)))


def test_a_leader_that_all_nodes_report_is_trusted_after_some_seconds() -> None:
    doubt, all_agree = LeaderAgreement(2, 120.0), views(3, LEADER, LEADER, LEADER)
    assert not doubt.believed(LEADER, all_agree, 0.0)
    assert not doubt.believed(LEADER, all_agree, AGREED_SECONDS - 0.1)
    assert doubt.believed(LEADER, all_agree, AGREED_SECONDS)


def test_a_majority_is_trusted_later_and_a_minority_never() -> None:
    doubt = LeaderAgreement(1, 120.0)
    for listed, told, believed in ((3, 2, True), (3, 1, False), (2, 1, False), (1, 1, True), (0, 0, False)):
        doubt.clear()
        some = views(listed, *[LEADER] * told)
        assert not doubt.believed(LEADER, some, 0.0)
        assert doubt.believed(LEADER, some, AGREED_SECONDS) == (believed and told == listed)
        assert doubt.believed(LEADER, some, MAJORITY_SECONDS) == believed


def test_the_agreement_time_restarts_with_another_leader_or_without_a_majority() -> None:
    doubt, agree = LeaderAgreement(1, 120.0), views(1, LEADER)
    doubt.believed(LEADER, agree, 0.0)
    assert not doubt.believed(Leader(2, 5), views(1, Leader(2, 5)), AGREED_SECONDS)
    doubt.believed(LEADER, agree, 10.0)
    doubt.believed(LEADER, views(1), 12.0)
    assert not doubt.is_settling
    assert not doubt.believed(LEADER, agree, 10.0 + AGREED_SECONDS)


def test_the_options_determine_the_number_of_agreement_checks() -> None:
    doubt, agree = LeaderAgreement(3, 120.0), views(1, LEADER)
    assert [doubt.believed(LEADER, agree, when) for when in (0.0, 50.0, 51.0)] == [False, False, True]


def test_a_permanent_fact_needs_a_majority_but_no_waiting_time() -> None:
    assert LeaderAgreement(3, 120.0).believed(LEADER, views(3, LEADER, LEADER), 0.0, lasting=True)
    assert not LeaderAgreement(3, 120.0).believed(LEADER, views(3, LEADER), 0.0, lasting=True)


def test_a_partition_is_deleted_when_a_majority_does_not_know_it() -> None:
    doubt = LeaderAgreement(1, 120.0)
    doubt.believed(None, views(3, None, None, LEADER), 0.0)
    assert not doubt.believed(None, views(3, None, None, LEADER), AGREED_SECONDS)
    assert doubt.believed(None, views(3, None, None, LEADER), MAJORITY_SECONDS)
    assert str(doubt) == "2 of 3 nodes say that the partition is unknown"


def test_the_agreement_time_is_bounded() -> None:
    doubt = LeaderAgreement(1, 0.5)
    doubt.believed(LEADER, views(3, LEADER, LEADER), 0.0)
    assert doubt.believed(LEADER, views(3, LEADER, LEADER), 0.5)
