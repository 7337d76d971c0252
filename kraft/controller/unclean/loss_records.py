"""The records that the controller writes about unclean elections, in addition to the elections themselves
(`kraft.common.config.dynamic.loss_reports`). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from kraft.common.config.dynamic.loss_reports import (
    ELECTIONS_KEPT,
    Loss,
    Report,
    election_key,
    loss_key,
    reports_of,
    text_of,
)
from kraft.common.config.resource_type import ResourceType
from kraft.controller.controller_result import MAX_RECORDS_PER_BATCH, ControllerResult
from kraft.controller.controller_view import ControllerView
from kraft.metadata.image.partition_registration import RECOVERING, PartitionRegistration, is_unclean_election
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.partition_change_record import PartitionChangeRecord
from kraft.world.steps import Steps

T = TypeVar("T")


def with_reports(view: ControllerView, result: ControllerResult[T], wall_ms: int) -> Steps[ControllerResult[T]]:
    """Return the result with a report for each of its unclean elections that has none yet, and a note for each replica
    that is back in sync. Yields after each changed partition.

    If there are more elections than fit into one batch, the rest are only logged as events.
    """
    present = {(record.resource_name, record.name) for record in result.records if isinstance(record, ConfigRecord)}
    changed: dict[tuple[bytes, int], PartitionRegistration] = {}
    notes: list[Any] = []
    for record in result.records:
        if not isinstance(record, PartitionChangeRecord) or (
            record.isr is None and record.leader_recovery_state != RECOVERING
        ):
            continue
        key = (record.topic_id, record.partition_id)
        topic = view.image.topics.by_id.get(record.topic_id)
        before = changed.get(key) or (None if topic is None else topic.partitions.get(record.partition_id))
        if topic is None or before is None:
            continue
        after = changed[key] = before.merge(record)
        is_unclean = is_unclean_election(before, after)
        notes += _returned(view, topic.name, key[1], before, after, wall_ms, another_comes=is_unclean)
        if is_unclean and (topic.name, election_key(key[1], after.leader_epoch)) not in present:
            notes += election_records(view, topic.name, key[1], before, after, {"time_ms": wall_ms})
        yield None
    room = max(0, MAX_RECORDS_PER_BATCH - len(result.records))
    return (
        ControllerResult([*result.records, *notes[:room]], result.response, atomic=result.atomic) if notes else result
    )


def election_records(
    view: ControllerView,
    topic: str,
    partition: int,
    before: PartitionRegistration,
    after: PartitionRegistration,
    known: Mapping[str, Any],
) -> list[Any]:
    """Return the records of one election's report, which includes the facts `known`. The partition's oldest reports are
    removed if it would have too many."""
    assert after.leader_epoch == before.leader_epoch + 1, f"{before} to {after} is no election"
    facts = {
        "leader": after.leader,
        "former_leader": before.leader,
        "former_epoch": before.leader_epoch,
        "former_isr": list(before.isr),
        "former_elr": list(before.elr),
        "last_known": list(before.last_known_elr),
        "replicas": list(after.replicas),
        **{name: value for name, value in known.items() if name not in ("topic", "partition", "leader_epoch")},
    }
    records = [_config(topic, election_key(partition, after.leader_epoch), text_of(facts))]
    for report in _too_old(reports_of(view.report_keys(topic).get(partition, ()))):
        records.append(_config(topic, election_key(partition, report.leader_epoch), None))
        records += [
            _config(topic, loss_key(partition, report.leader_epoch, replica), None) for replica in sorted(report.losses)
        ]
    return records


def _too_old(reports: Sequence[Report]) -> Sequence[Report]:
    """Return the reports to remove when another one is added."""
    return reports[: max(0, len(reports) + 1 - ELECTIONS_KEPT)]


def _returned(
    view: ControllerView,
    topic: str,
    partition: int,
    before: PartitionRegistration,
    after: PartitionRegistration,
    wall_ms: int,
    *,
    another_comes: bool,
) -> list[Any]:
    """Note the replicas that are back in the ISR without having reported a truncation.

    Such a replica had no further records, or lost its log, or now leads with the records that it had. A later report
    replaces this note.
    """
    back = [replica for replica in after.isr if replica not in before.isr]
    keys = view.report_keys(topic).get(partition) if back else None
    if keys is None:
        return []
    nothing = text_of(Loss(0, 0, 0, after.leader_epoch, wall_ms))
    reports = reports_of(keys)
    kept = reports[len(_too_old(reports)) :] if another_comes else reports
    awaited = ((report.leader_epoch, replica) for report in kept for replica in back if replica in report.outstanding)
    return [_config(topic, loss_key(partition, epoch, replica), nothing) for epoch, replica in awaited]


def _config(topic: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic, name=name, value=value)
