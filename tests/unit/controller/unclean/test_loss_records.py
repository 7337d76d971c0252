"""kraft/controller/unclean/loss_records.py: what the metadata log keeps of unclean elections."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.config.dynamic.alterations import Alteration, Operation
from kraft.common.config.dynamic.loss_reports import (
    ELECTIONS_KEPT,
    Loss,
    Report,
    election_key,
    loss_key,
    parse_loss,
    reports_of,
    text_of,
)
from kraft.common.errors import ApiError
from kraft.controller.controller_result import MAX_RECORDS_PER_BATCH, ControllerResult
from kraft.controller.controls.configuration_control import alter_resource
from kraft.controller.replication_control import leader_and_isr
from kraft.controller.unclean.log_comparison import LogEnd
from kraft.controller.unclean.loss_records import election_records, with_reports
from kraft.controller.unclean.recovery import UncleanRecoveries
from kraft.metadata.image.configs_image import ConfigResource
from kraft.metadata.image.partition_registration import RECOVERING, is_unclean_election
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.world.steps import at_once
from tests.unit.controller.pure_cluster import PureCluster

TOPIC = 2
NOW = 1_700_000_000_000


class Lossy:
    """`t`-0 on brokers 1 to 3, led by whoever is there."""

    def __init__(self, **configs: str) -> None:
        self.cluster = PureCluster(1, 2, 3)
        self.cluster.topic("t", [1, 2, 3], **(configs or {"unclean_leader_election_enable": "true"}))

    def write(self, records: list[Any]) -> ControllerResult[None]:
        result = at_once(with_reports(self.cluster.view, ControllerResult(records, None), NOW))
        self.cluster.replay(*result.records)
        return result

    def lead_only(self, broker_id: int) -> None:
        """All go, this one last; nobody may lead then but by an unclean election of whoever comes."""
        for other in (1, 2, 3):
            if other != broker_id:
                self.write(at_once(leader_and_isr.broker_fenced(self.cluster.view, other)))
        self.write(at_once(leader_and_isr.broker_fenced(self.cluster.view, broker_id)))

    def comes(self, broker_id: int) -> None:
        self.write(at_once(leader_and_isr.broker_unfenced(self.cluster.view, broker_id, self.cluster.epoch(broker_id))))

    def in_sync(self, *isr: int) -> None:
        topic_id = self.cluster.image.topics.id_by_name["t"]
        self.write([PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=list(isr), leader_recovery_state=0)])

    @property
    def reports(self) -> list[Report]:
        return reports_of(self.cluster.image.configs.topic("t").items())


def test_an_unclean_election_is_recorded_in_its_own_batch() -> None:
    run = Lossy()
    run.lead_only(1)
    assert run.reports == []
    run.comes(2)
    after = run.cluster.partition("t")
    (report,) = run.reports
    assert (after.leader, report.leader_epoch, report.outstanding) == (2, after.leader_epoch, (1, 3))
    assert report.election == {
        "leader": 2,
        "former_leader": -1,
        "former_epoch": after.leader_epoch - 1,
        "former_isr": [1],
        "former_elr": [],
        "last_known": [],
        "replicas": [1, 2, 3],
        "time_ms": NOW,
    }


def test_a_replica_that_rejoins_the_isr_without_a_loss_report_is_recorded_once() -> None:
    run = Lossy()
    run.lead_only(1)
    run.comes(2)
    run.in_sync(2, 3)
    epoch = run.cluster.partition("t").leader_epoch
    assert run.reports[0].losses == {3: Loss(0, 0, 0, epoch, NOW)}
    told = text_of(Loss(5, 9, 7, epoch, 1))
    run.cluster.replay(*alter(run, loss_key(0, epoch, 1), told))
    run.in_sync(2, 3, 1)
    assert run.reports[0].losses[1] == parse_loss(told)
    assert run.reports[0].outstanding == ()


def test_a_second_unclean_election_before_the_leader_recovered_is_recorded_too() -> None:
    run = Lossy()
    run.lead_only(1)
    run.comes(2)
    run.write(at_once(leader_and_isr.broker_fenced(run.cluster.view, 2)))
    before = run.cluster.partition("t")
    run.comes(3)
    after = run.cluster.partition("t")
    assert (before.leader_recovery_state, after.leader_recovery_state, after.leader) == (RECOVERING, RECOVERING, 3)
    assert is_unclean_election(before, after)
    assert [report.election["leader"] for report in run.reports] == [2, 3]


def test_a_clean_election_of_a_recovering_partition_is_not_recorded_as_unclean() -> None:
    run = Lossy()
    run.lead_only(1)
    run.comes(2)
    run.write(at_once(leader_and_isr.broker_fenced(run.cluster.view, 2)))
    run.comes(2)
    assert run.cluster.partition("t").leader == 2
    assert len(run.reports) == 1


def test_only_the_latest_election_reports_are_kept_with_their_completions() -> None:
    run = Lossy()
    run.lead_only(1)
    for serial in range(ELECTIONS_KEPT + 2):
        leader = 2 + serial % 2
        run.comes(leader)
        run.in_sync(leader, 1)
        run.in_sync(leader)
        run.write(at_once(leader_and_isr.broker_fenced(run.cluster.view, leader)))
    epochs = [report.leader_epoch for report in run.reports]
    assert len(epochs) == ELECTIONS_KEPT
    assert all(1 in report.losses for report in run.reports)
    names = list(run.cluster.image.configs.topic("t"))
    assert all(
        int(name.split(".")[4]) >= epochs[0]
        for name in names
        if name.startswith(("kraft.unclean.election", "kraft.unclean.loss"))
    ), names


def test_a_recovery_records_the_known_log_ends_and_is_recorded_once() -> None:
    run = Lossy(kraft_unclean_recovery_strategy="aggressive")
    run.lead_only(1)
    run.comes(2)
    run.comes(3)
    recoveries = UncleanRecoveries(300.0)
    for ask in recoveries.questions(run.cluster.view, 0.0).asks:
        recoveries.answered(ask, LogEnd(0, 10 + ask.broker_id))
    result = recoveries.decide(run.cluster.view, 0.0, NOW)
    assert len(result.records) == 2
    run.write(result.records)
    (report,) = run.reports
    ends = [{"replica": 2, "last_epoch": 0, "end_offset": 12}, {"replica": 3, "last_epoch": 0, "end_offset": 13}]
    assert [report.election[name] for name in ("leader", "strategy", "end_offset", "ends", "silent", "time_ms")] == [
        3,
        "aggressive",
        13,
        ends,
        [1],
        NOW,
    ]


def test_log_ends_that_do_not_fit_the_batch_are_left_out() -> None:
    run = Lossy()
    run.lead_only(1)
    elected = at_once(leader_and_isr.broker_unfenced(run.cluster.view, 2, run.cluster.epoch(2)))
    records = elected + [NoOpRecord()] * (MAX_RECORDS_PER_BATCH - len(elected))
    assert (
        len(at_once(with_reports(run.cluster.view, ControllerResult(records, None, atomic=True), NOW)).records)
        == MAX_RECORDS_PER_BATCH
    )


def alter(run: Lossy, name: str, value: str | None) -> list[Any]:
    operation = Operation.DELETE if value is None else Operation.SET
    return alter_resource(
        run.cluster.view,
        ConfigResource(TOPIC, "t"),
        [Alteration(name, operation, value)],
        newly_created=False,
        forwarded=True,
    )


def test_election_reports_can_be_dismissed_and_completed_but_not_created() -> None:
    run = Lossy()
    run.lead_only(1)
    run.comes(2)
    epoch = run.reports[0].leader_epoch
    loss = text_of(Loss(5, 9, 7, epoch, 1))
    for name, value in (
        (election_key(0, epoch), "{}"),
        (election_key(0, epoch + 1), text_of(run.reports[0].election)),
        (loss_key(0, epoch + 1, 1), loss),
        (loss_key(0, epoch, 1), "{}"),
    ):
        with pytest.raises(ApiError, match="it can be deleted, not set"):
            alter(run, name, value)
    run.cluster.replay(*alter(run, "retention.ms", "5"), *alter(run, loss_key(0, epoch, 1), loss))
    assert run.reports[0].losses[1].end_offset == 9
    run.cluster.replay(*alter(run, election_key(0, epoch), None))
    assert run.reports == []


def test_a_leader_by_a_second_unclean_election_is_no_longer_waited_for() -> None:
    """It lost nothing of what it had in the election before, so nobody will ever hear of that from it."""
    run = Lossy()
    run.lead_only(1)
    run.comes(2)
    run.in_sync(2)
    run.lead_only(2)
    run.comes(1)
    first, second = run.reports
    assert (first.election["leader"], second.election["leader"]) == (2, 1)
    assert 1 not in first.outstanding
    assert first.losses[1].start_offset == first.losses[1].end_offset


def test_recording_an_election_without_a_leader_epoch_change_fails_an_assertion() -> None:
    cluster = Lossy().cluster
    partition = cluster.partition("t")
    with pytest.raises(AssertionError, match="is no election"):
        election_records(cluster.view, "t", 0, partition, partition, {})
