"""Whether a run proves anything. A green run without load, without leaders that change, or with faults that did nothing is invalid."""

from __future__ import annotations

from collections.abc import Iterator

from jepsen.history import RunHistory
from kraft.testing.checker.operations import OK, FaultInjected, Phase, Send

ACKNOWLEDGED_PER_SECOND_LEAST = 5.0
LEADER_CHANGES_LEAST = 2
CALM = "calm"
OVERTAKEN = "overtaken-leader"


def leader_changes(run: RunHistory) -> int:
    """How often a partition or the quorum was seen to be under a new leader epoch."""
    epochs: dict[str, set[int]] = {}
    for sample in run.samples:
        epochs.setdefault("quorum", set()).add(sample.controller_epoch)
        for name, (_, epoch, _, _) in sample.partitions.items():
            epochs.setdefault(name, set()).add(epoch)
    return sum(len(seen) - 1 for seen in epochs.values())


def invalid(run: RunHistory, lost: int) -> Iterator[str]:
    """Each reason why the run counts for nothing. `lost` is how many acknowledged records are gone, allowed or not."""
    phases = {phase.name: phase.began for phase in run.operations.of(Phase)}
    if "healed" not in phases:
        yield "the run did not come to its end"
        return
    acknowledged = [send.began for send in run.operations.of(Send) if send.outcome == OK]
    chaos = [began for began in acknowledged if phases["chaos"] <= began < phases["healed"]]
    wanted = ACKNOWLEDGED_PER_SECOND_LEAST * (phases["healed"] - phases["chaos"])
    if len(chaos) < wanted:
        yield f"{len(chaos)} records were acknowledged under faults, {wanted:.0f} are wanted"
    if not any(began < phases["chaos"] for began in acknowledged) or not any(began >= phases["healed"] for began in acknowledged):
        yield "nothing was acknowledged before the first fault, or nothing after the last"
    if run.facts.plan != CALM:
        yield from _faults(run)
    if run.facts.plan == OVERTAKEN and run.facts.tells_losses and (not lost or not any(report.lost for report in run.loss_reports)):
        yield f"{lost} acknowledged records were lost by unclean elections, with {len(run.loss_reports)} reports: there was nothing to tell the truth about"


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
