"""The verdict on one run: every acknowledged record is there in the end, or reported lost; consumers saw what was
committed; the cluster works again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from jepsen.checker import check
from jepsen.checker.operations import (
    OK,
    Commit,
    Committed,
    FinalRead,
    ListOffset,
    Phase,
    Poll,
    ReplicaContent,
    Send,
    TopicChange,
)
from jepsen.history import RunHistory, load
from jepsen.judges.allowances import allow, commits_between_losses
from jepsen.judges.loss_reports import Lost, untrue
from jepsen.judges.transformed import untrue as untransformed
from jepsen.judges.validity import invalid
from jepsen.workloads.workload import TOPIC, TRANSACTIONAL, TRANSFORMERS

FINDINGS_MAX = 20
UNSEEN_SECONDS_MAX = 60.0
EXIT_CODES = {"ok": 0, "violation": 1, "invalid": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a run. `lost` counts acknowledged records that are gone at the end, allowed or not. `unseen` counts
    those that exist and that no reader got in time. `twice` counts those that exist again, finding or not (rule 2)."""

    word: str
    acknowledged: int
    checked: int
    lost: int
    lost_allowed: int
    unseen: int
    twice: int
    findings: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.word]

    def __str__(self) -> str:
        return (
            f"verdict: {self.word} acked={self.acknowledged} checked={self.checked} lost={self.lost} "
            f"unseen={self.unseen}"
        )


def judge(run: RunHistory) -> Verdict:
    """Judge a run. Changes the run's operations where a loss is allowed (`allowances`)."""
    acknowledged = {send.values[0]: send for send in run.operations.of(Send) if send.outcome == OK}
    reads = [poll.began for poll in run.operations.of(Poll) if poll.outcome == OK and poll.records]
    _place_duplicates(run)
    offsets = {value: send.offset for value, send in acknowledged.items()}  # As they were told: allowances forget them.
    early_commits = [str(finding) for part in commits_between_losses(run) for finding in check(part)]
    allowed = allow(run)
    history = run.operations
    copies = [value for read in history.of(FinalRead) for _, value, _ in read.records]
    final = set(copies)
    read_places = {read.place for read in history.of(FinalRead)}
    unseen = _unseen(run, final - allowed.brought_back)
    lost = [value for value, send in acknowledged.items() if send.place in read_places and value not in final]
    nowhere = set(lost) - set(allowed.lost)
    findings = (
        *map(str, check(history)),
        *early_commits[:FINDINGS_MAX],
        *(f"lost: {value} was acknowledged and is nowhere in the end" for value in sorted(nowhere)[:FINDINGS_MAX]),
    )
    if unseen:
        within = f"within {UNSEEN_SECONDS_MAX:g} s of healing"
        findings += (
            f"unseen: {len(unseen)} acknowledged records were seen by no reader {within}, among them "
            f"{', '.join(unseen[:3])}",
        )
    if run.facts.tells_losses:
        findings += tuple(
            untrue(
                run,
                [
                    Lost(value, acknowledged[value].place, offsets[value])
                    for value in lost
                    if value not in allowed.by_power
                ],
                offsets,
            )
        )
    if run.facts.workload in TRANSACTIONAL:
        findings += tuple(islice(untransformed(run, TRANSFORMERS, TOPIC), FINDINGS_MAX))
    reasons = tuple(invalid(run, len(lost), reads))
    checked = sum(len(poll.records) for poll in history.of(Poll)) + len(acknowledged)
    checked += sum(
        sum(each.outcome == OK for each in history.of(kind))
        for kind in (Commit, Committed, ListOffset, TopicChange, ReplicaContent)
    )
    return Verdict(
        word="violation" if findings else "invalid" if reasons else "ok",
        acknowledged=len(acknowledged),
        checked=checked,
        lost=len(lost),
        lost_allowed=len(allowed.lost),
        unseen=len(unseen),
        twice=len(copies) - len(final),
        findings=findings,
        reasons=reasons,
    )


def _unseen(run: RunHistory, final: set[str]) -> list[str]:
    """Acknowledged records that exist, and that no reader had got within 60 s after healing, or after their
    acknowledgement if that was later."""
    history = run.operations
    healed = max((phase.began for phase in history.of(Phase) if phase.name == "healed"), default=float("inf"))
    first: dict[str, float] = {}
    for poll in history.of(Poll):
        at = poll.began if poll.ended is None else poll.ended
        for _, value, _ in poll.records:
            first[value] = min(at, first.get(value, at))
    return [
        value
        for send in history.of(Send)
        for value in send.values
        if send.outcome == OK
        and value in final
        and first.get(value, float("inf")) > max(healed, send.ended or healed) + UNSEEN_SECONDS_MAX
    ]


def _place_duplicates(run: RunHistory) -> None:
    """Give an acknowledgement without an offset (of a retried batch that the broker had) the offset at which its value
    was found at the end."""
    places = {value: (read.place, offset) for read in run.operations.of(FinalRead) for offset, value, _ in read.records}
    for send in run.operations.of(Send):
        if (
            send.outcome == OK
            and send.offset < 0
            and send.values[0] in places
            and places[send.values[0]][0] == send.place
        ):
            send.offset = places[send.values[0]][1]


def judge_file(path: Path) -> Verdict:
    """Judge the run in a file. Raises ValueError, OSError."""
    return judge(load(path))
