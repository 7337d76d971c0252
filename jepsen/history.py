"""The history of a run, in one file: operations of clients, faults, and the cluster's own reports.

The lines of clients and faults are those of the shared checker (`jepsen/checker/history.py`), so that simulated and
real runs are judged alike. Four kinds of line are added here: `run` (first: what was run and how), `sample` (the
leaders at a moment), `power_loss` (the disks that lost what was not synced, and when) and `loss_reports` (the reported
losses of unclean elections). Times are seconds since the start of the run.
"""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO, TypeVar

from jepsen.checker.history import History, from_line, to_line
from jepsen.checker.operations import OK, Operation, Partition, Send

METADATA: Partition = ("__cluster_metadata", 0)
MIXED = "mixed"
"""The target whose nodes run two programs, and change them."""

SomeOperation = TypeVar("SomeOperation", bound=Operation)


@dataclass(slots=True, kw_only=True)
class RunFacts:
    """The options of a run; enough to repeat it."""

    target: str
    workload: str
    plan: str
    seed: int
    seconds: float
    flush: bool
    secured: bool = False
    unclean: bool = False
    min_in_sync: int = 1
    """min.insync.replicas of the topic that is written to."""
    kafkas: list[int] = field(default_factory=list)
    """The first nodes that run Apache Kafka in a cluster of both programs."""
    machine: str = "namespaces"
    version: str = ""

    @property
    def tells_losses(self) -> bool:
        """Whether unclean elections are allowed and the target reports their losses."""
        return self.unclean and self.target == "kraft"


@dataclass(slots=True, kw_only=True)
class Sample:
    """The cluster's state at one moment: the quorum's leader and epoch, and for each partition leader, leader epoch,
    in-sync set and replicas."""

    at: float
    controller: int = -1
    controller_epoch: int = -1
    partitions: dict[str, tuple[int, int, list[int], list[int]]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class PowerLoss:
    """A power loss at `at`: these nodes have only what they had synced."""

    at: float
    nodes: list[int]


@dataclass(slots=True, kw_only=True)
class LossReport:
    """The report of one unclean election: the offsets [start, end) that replicas gave up when they came back, and the
    replicas whose loss is unknown."""

    topic: str
    partition: int
    leader_epoch: int
    complete: bool
    lost: dict[int, tuple[int, int]]
    unknown: list[int]
    committed: dict[int, int] = field(default_factory=dict)
    """Offset below which each of those replicas knew its records to be committed."""
    at: float = math.inf
    """Latest time of the report."""


@dataclass(slots=True)
class RunHistory:
    """A history read from its file."""

    facts: RunFacts
    operations: History
    samples: list[Sample]
    power_losses: list[PowerLoss]
    loss_reports: list[LossReport] = field(default_factory=list)
    """Oldest first. A later report of the same election is more complete."""


class Recorder:
    """Writes the file during the run. May be used by many threads."""

    def __init__(self, path: Path, facts: RunFacts) -> None:
        self._started = time.monotonic()
        self._facts = facts
        self._power_failed = False
        self._lock = threading.Lock()
        self._file: TextIO = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed by close().
        self._open: dict[int, Operation] = {}
        self.acknowledged: dict[str, float] = {}
        self.last_acknowledged: dict[Partition, float] = {}
        self.polled: set[str] = set()
        self.finished: set[str] = set()
        """Values of records that a share group may have finished: accepted, rejected, or delivered up to the limit."""
        self._write("run", asdict(facts))

    def now(self) -> float:
        return time.monotonic() - self._started

    @property
    def may_lose(self) -> bool:
        """Whether acknowledged records may be lost by now: unclean elections are allowed, or power failed without
        flush.messages=1."""
        return self._facts.unclean or (self._power_failed and not self._facts.flush)

    def begin(self, operation: SomeOperation) -> SomeOperation:
        """Add an operation that is under way; it is written when it is done, or at the end."""
        with self._lock:
            self._open[id(operation)] = operation
        return operation

    def done(self, operation: Operation) -> None:
        """Write an operation that has ended."""
        if isinstance(operation, Send) and operation.outcome == OK:
            self.last_acknowledged[operation.place] = self.now()
        with self._lock:
            self._open.pop(id(operation), None)
            self._file.write(to_line(operation) + "\n")

    def sample(self, sample: Sample) -> None:
        with self._lock:
            self._write("sample", asdict(sample))

    def power_loss(self, nodes: list[int]) -> None:
        self._power_failed = True
        with self._lock:
            self._write("power_loss", asdict(PowerLoss(at=self.now(), nodes=nodes)))

    def loss_reports(self, reports: list[LossReport]) -> None:
        with self._lock:
            self._write("loss_reports", {"reports": [asdict(replace(report, at=self.now())) for report in reports]})

    def close(self) -> None:
        """Write the operations that are still open, as unanswered."""
        with self._lock:
            for operation in self._open.values():
                self._file.write(to_line(operation) + "\n")
            self._open.clear()
            self._file.close()

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        self._file.write(json.dumps({"op": kind, **fields}, separators=(",", ":")) + "\n")


def load(path: Path) -> RunHistory:
    """Read a history file. Raises ValueError if it is no history, OSError if it cannot be read."""
    facts: RunFacts | None = None
    found = RunHistory(RunFacts(target="", workload="", plan="", seed=0, seconds=0, flush=True), History(), [], [])
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = json.loads(line)
            kind = fields.pop("op", "")
            if kind == "run":
                facts = RunFacts(**fields)
            elif kind == "sample":
                found.samples.append(
                    Sample(
                        **{**fields, "partitions": {name: tuple(value) for name, value in fields["partitions"].items()}}
                    )
                )
            elif kind == "power_loss":
                found.power_losses.append(PowerLoss(**fields))
            elif kind == "loss_reports":
                found.loss_reports += [_loss_report(each) for each in fields["reports"]]
            else:
                found.operations.add(from_line(line))
    if facts is None:
        raise ValueError(f"{path} has no line that says what was run")
    found.facts = facts
    found.operations.operations.sort(key=lambda operation: operation.began)
    return RunHistory(
        facts, History(found.operations.operations), found.samples, found.power_losses, found.loss_reports
    )


def _loss_report(fields: dict[str, Any]) -> LossReport:
    lost = {int(replica): (start, end) for replica, (start, end) in fields["lost"].items()}
    committed = {int(replica): offset for replica, offset in fields.get("committed", {}).items()}
    return LossReport(**{**fields, "lost": lost, "committed": committed})
