"""Whether a run proves anything. A green run without load, without leader changes, or with faults that had no effect is
invalid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jepsen.checker.operations import (
    OK,
    Acknowledged,
    Acquired,
    Commit,
    Committed,
    FaultInjected,
    FinalRead,
    ListOffset,
    Operation,
    Partition,
    Phase,
    ReplicaContent,
    Send,
    ShareStart,
    TopicChange,
    TopicSeen,
    Transaction,
)
from jepsen.history import METADATA, MIXED, RunHistory
from jepsen.judges.allowances import LOST_AS_ALLOWED

ACKNOWLEDGED_PER_SECOND_LEAST = 5.0
LEADER_CHANGES_LEAST = 2
CALM = "calm"
ROLL = "roll"
STEADY = "steady"
OVERTAKEN = "overtaken-leader"
TIERED = frozenset({"tiered"})
NEEDS: dict[str, tuple[type[Operation], ...]] = {
    "queue": (Commit, Committed, ListOffset, TopicChange),
    "groups": (Commit, Committed),
    "consumers": (Commit, Committed),
    "shares": (Acquired, Acknowledged, ShareStart),
    "topics": (TopicChange,),
    "offsets": (ListOffset,),
    "tiered": (Commit, Committed, ListOffset),
    "transactions": (Transaction, Committed),
}
"""Kinds of operations of which at least one must have succeeded, by workload."""


def leader_changes(run: RunHistory) -> int:
    """The number of new leader epochs seen, of partitions and of the quorum, since the faults began."""
    chaos = max((phase.began for phase in run.operations.of(Phase) if phase.name == "chaos"), default=0.0)
    first = max((number for number, sample in enumerate(run.samples) if sample.at < chaos), default=0)
    epochs: dict[str, set[int]] = {}
    for sample in run.samples[first:]:
        if sample.controller_epoch >= 0:
            epochs.setdefault("quorum", set()).add(sample.controller_epoch)
        for name, (_, epoch, _, _) in sample.partitions.items():
            epochs.setdefault(name, set()).add(epoch)
    return sum(len(seen) - 1 for seen in epochs.values())


def invalid(run: RunHistory, lost: int, reads: Sequence[float]) -> Iterator[str]:
    """Yield each reason why the run does not count. `lost` is the number of acknowledged records that are gone, allowed
    or not. `reads` are the times at which reads of records began, lost records included."""
    phases = {phase.name: phase.began for phase in run.operations.of(Phase)}
    if "healed" not in phases:
        yield "the run did not come to its end"
        return
    acknowledged = [
        send.began for send in run.operations.of(Send) if send.outcome == OK or send.error == LOST_AS_ALLOWED
    ]
    chaos = [began for began in acknowledged if phases["chaos"] <= began < phases["healed"]]
    wanted = ACKNOWLEDGED_PER_SECOND_LEAST * (phases["healed"] - phases["chaos"])
    if len(chaos) < wanted:
        yield f"{len(chaos)} records were acknowledged under faults, {wanted:.0f} are wanted"
    if not any(began < phases["chaos"] for began in acknowledged) or not any(
        began >= phases["healed"] for began in acknowledged
    ):
        yield "nothing was acknowledged before the first fault, or nothing after the last"
    if not any(phases["chaos"] <= began < phases["healed"] for began in reads):
        yield "nothing was read under faults"
    yield from _unlooked(run)
    if run.facts.plan != CALM:
        yield from _faults(run)
    if run.facts.target == MIXED:
        yield from _unmixed(run, phases["chaos"])
    if (
        run.facts.plan == OVERTAKEN
        and run.facts.tells_losses
        and (not lost or not any(report.lost for report in run.loss_reports))
    ):
        yield (
            f"{lost} acknowledged records were lost by unclean elections, with {len(run.loss_reports)} reports: "
            "there was nothing to tell the truth about"
        )


def _unmixed(run: RunHistory, chaos: float) -> Iterator[str]:
    """Yield what a run on both programs lacks: a node that changed its program, or in a steady cluster leaders of the
    quorum on both since the faults began."""
    if run.facts.plan == STEADY:
        leaders = {each.controller for each in run.samples if each.at >= chaos and each.controller >= 0}
        if not leaders & set(run.facts.kafkas) or leaders <= set(run.facts.kafkas):
            yield "the quorum was led by nodes of one program alone"
    elif not any(fault.bit for fault in run.operations.of(FaultInjected) if fault.kind == ROLL):
        yield "no node changed its program"


def _unlooked(run: RunHistory) -> Iterator[str]:
    """Yield the acknowledged data that was not read at the end, which no rule judges."""
    history = run.operations
    read = {each.place for each in history.of(FinalRead)}
    compared: dict[Partition, set[str]] = {}
    for content in history.of(ReplicaContent):
        if content.start < content.end:
            compared.setdefault(content.place, set()).add(content.process)
    if METADATA not in compared:
        yield "no node's metadata log was compared"
    for place in sorted({send.place for send in history.of(Send) if send.outcome == OK}):
        name = f"{place[0]}-{place[1]}"
        if place not in read:
            yield f"{name} was not read in the end"
        replicas = next(
            (sample.partitions[name][3] for sample in reversed(run.samples) if name in sample.partitions), []
        )
        if len(compared.get(place, ())) < max(1, len(replicas)):
            yield f"{len(compared.get(place, ()))} replicas of {name} were compared, and there are {len(replicas)}"
    if run.facts.workload in TIERED:
        yield from _untiered(run)
    topics = {change.topic for change in history.of(TopicChange) if change.outcome == OK} - {
        each.topic for each in history.of(TopicSeen)
    }
    if topics:
        yield f"{len(topics)} topics were changed and not looked at in the end, among them {min(topics)}"
    for kind in NEEDS.get(run.facts.workload, ()):
        if not any(each.outcome == OK and not _is_unjudged(each) for each in history.of(kind)):
            yield f"the workload {run.facts.workload} had no {kind.OP} that succeeded"


def _untiered(run: RunHistory) -> Iterator[str]:
    """Yield the partitions that the final read got from disks alone, which proves nothing of the store."""
    history = run.operations
    on_disk = {content.place: content.start for content in history.of(ReplicaContent)}
    for read in history.of(FinalRead):
        if on_disk.get(read.place, read.start) <= read.start:
            yield f"{read.topic}-{read.partition} has no records that are in the object store alone"


def _is_unjudged(operation: Operation) -> bool:
    """Whether no rule judges the operation: an end listed without a leader epoch."""
    return isinstance(operation, ListOffset) and operation.epoch < 0


def _faults(run: RunHistory) -> Iterator[str]:
    changes = leader_changes(run)
    if changes < LEADER_CHANGES_LEAST:
        yield f"{changes} changes of leaders were seen, {LEADER_CHANGES_LEAST} are wanted"
    faults = run.operations.of(FaultInjected)
    if not faults:
        yield "no fault was injected"
    for kind in sorted({fault.kind for fault in faults}):
        if not any(fault.bit for fault in faults if fault.kind == kind):
            yield f"no fault of the kind {kind} bit"
