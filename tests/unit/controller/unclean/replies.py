"""Replicas that answer a recovery, played by the test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kraft.controller.unclean.election_facts import Recovered
from kraft.controller.unclean.log_comparison import LogEnd
from kraft.controller.unclean.recovery import UncleanRecoveries
from tests.unit.controller.pure_cluster import PureCluster

Epochs = Sequence[int]
"""A log: the leader epoch of each record."""


def end_of(log: Epochs) -> LogEnd:
    return LogEnd(log[-1] if log else -1, len(log))


def epoch_end(log: Epochs, epoch: int) -> LogEnd:
    """What OffsetForLeaderEpoch answers for an epoch that is not beyond the log's last one."""
    not_beyond = [each for each in log if each <= epoch]
    return LogEnd(not_beyond[-1], len(not_beyond)) if not_beyond else LogEnd(epoch, 0)


def ask_round(
    recoveries: UncleanRecoveries,
    cluster: PureCluster,
    now: float,
    logs: Mapping[int, Epochs],
    dead: Iterable[int] = (),
) -> tuple[Recovered, ...]:
    """One look of the controller at `now`: replicas that are in `logs` answer, and are compared."""
    deaths: tuple[tuple[int, int], ...] = ()
    for _ in range(2):
        questions = recoveries.questions(cluster.view, now)
        deaths = questions.deaths
        for ask in questions.asks:
            if ask.broker_id in logs:
                log = logs[ask.broker_id]
                recoveries.answered(ask, end_of(log), {epoch: epoch_end(log, epoch) for epoch in ask.epochs})
            else:
                recoveries.unanswered(ask, now)
    recoveries.found_dead([each for each in deaths if each[0] in dead])
    return cluster.apply(recoveries.decide(cluster.view, now))


def recover(cluster: PureCluster) -> None:
    """Every live replica answers that its log is empty, and the time for those that are no members passes."""
    recoveries = UncleanRecoveries(300.0)
    logs: dict[int, Epochs] = {broker: [] for broker in cluster.image.cluster.brokers}
    for now in (0.0, 3.0):
        ask_round(recoveries, cluster, now, logs)
