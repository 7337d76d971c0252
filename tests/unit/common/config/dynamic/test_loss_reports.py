"""kraft/common/config/dynamic/loss_reports.py"""

from __future__ import annotations

import pytest

from kraft.common.config.dynamic.loss_reports import (
    Loss,
    election_key,
    election_of_loss,
    is_report_key,
    keys_by_partition,
    loss_key,
    parse_loss,
    report_of_loss,
    reports_of,
    text_of,
)

ELECTION = {"leader": 2, "replicas": [1, 2, 3]}
LOSS = Loss(10, 20, 15, 6, 1_000)


def texts(*epochs: int, partition: int = 0) -> dict[str, str]:
    return {election_key(partition, epoch): text_of(ELECTION) for epoch in epochs}


def test_loss_reports_are_read_in_order_from_a_topic_configuration() -> None:
    configs = {
        **texts(12, 5),
        **texts(7, partition=1),
        "retention.ms": "1",
        loss_key(0, 5, 1): text_of(LOSS),
        loss_key(0, 99, 1): text_of(LOSS),
    }
    reports = reports_of(configs.items())
    assert [(report.partition, report.leader_epoch, dict(report.losses)) for report in reports] == [
        (0, 5, {1: LOSS}),
        (0, 12, {}),
        (1, 7, {}),
    ]
    assert [report.outstanding for report in reports] == [(3,), (1, 3), (1, 3)]
    assert {
        partition: sorted(name for name, _ in keys) for partition, keys in keys_by_partition(configs.items()).items()
    } == {
        0: sorted([election_key(0, 12), election_key(0, 5), loss_key(0, 5, 1), loss_key(0, 99, 1)]),
        1: [election_key(1, 7)],
    }


def test_config_keys_of_loss_reports_are_recognized() -> None:
    assert is_report_key(election_key(0, 5))
    assert is_report_key(loss_key(0, 5, 1))
    others = (
        "kraft.unclean.recovery.strategy",
        "kraft.unclean.election.0.5.1",
        "kraft.unclean.loss.0.5",
        "retention.ms",
    )
    assert not any(is_report_key(name) for name in others)
    assert (election_of_loss(loss_key(3, 5, 1)), election_of_loss(election_key(3, 5))) == (election_key(3, 5), None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[]",
        "{}",
        '{"start_offset": 1}',
        text_of(LOSS).replace("10", "true"),
        text_of(LOSS).replace("10", "21"),
    ],
)
def test_invalid_loss_reports_are_ignored(text: str) -> None:
    assert parse_loss(text) is None
    assert parse_loss(text_of(LOSS)) == LOSS


def test_a_loss_reported_in_steps_becomes_one_loss() -> None:
    step = Loss(4, 10, 6, 6, 2_000)
    assert step.joined(LOSS) == Loss(4, 20, 15, 6, 2_000)
    assert step.joined(None) == step
    assert step.joined(Loss(0, 0, 0, 9, 5)) == step, "the controller saw it in sync before it told"


def test_a_loss_is_attributed_to_the_first_election_after_the_truncated_epoch() -> None:
    reports = reports_of(texts(5, 9).items())
    found = {
        (first, now): None if (report := report_of_loss(reports, first, now, 1)) is None else report.leader_epoch
        for first, now in ((4, 5), (4, 12), (5, 12), (8, 9), (9, 12), (4, 4), (-1, 5))
    }
    assert found == {(4, 5): 5, (4, 12): 5, (5, 12): 9, (8, 9): 9, (9, 12): None, (4, 4): None, (-1, 5): 5}
    assert report_of_loss(reports, 4, 5, 2) is None, "the one elected lost nothing by it"
    assert report_of_loss(reports, 4, 5, 7) is None
