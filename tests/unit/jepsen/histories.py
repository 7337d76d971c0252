"""Small histories of runs, made by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jepsen.checker.history import History
from jepsen.checker.operations import OK, FaultInjected, FinalRead, Operation, Phase, Poll, ReplicaContent, Send
from jepsen.history import METADATA, LossReport, PowerLoss, RunFacts, RunHistory, Sample

PLACE = {"topic": "events", "partition": 0}
REPLICAS = [1, 2, 3]


def send(value: str, offset: int, began: float = 5.0) -> Send:
    return Send(
        process="p", began=began, ended=began + 0.1, outcome=OK, values=[value], offset=offset, attempts=2, **PLACE
    )  # type: ignore[arg-type]


def poll(position: int, *records: tuple[int, str] | tuple[int, str, int], began: float = 6.0) -> Poll:
    """Each record with its leader epoch, or without."""
    found = [(*record, -1)[:3] for record in records]
    return Poll(process="r", began=began, ended=began + 0.1, outcome=OK, position=position, records=found, **PLACE)  # type: ignore[arg-type]


def final(*records: tuple[int, str] | tuple[int, str, int]) -> FinalRead:
    found = [(*record, -1)[:3] for record in records]
    end = max((record[0] + 1 for record in records), default=0)
    return FinalRead(process="final", began=90.0, ended=91.0, outcome=OK, start=0, end=end, records=found, **PLACE)  # type: ignore[arg-type]


def sample(at: float, epoch: int = 0, in_sync: list[int] | None = None) -> Sample:
    return Sample(
        at=at,
        controller=1,
        controller_epoch=1,
        partitions={"events-0": (1, epoch, REPLICAS if in_sync is None else in_sync, REPLICAS)},
    )


def report(
    lost: dict[int, tuple[int, int]],
    unknown: Sequence[int] = (),
    partition: int = 0,
    epoch: int = 2,
    at: float = math.inf,
    committed: int = 100,
) -> LossReport:
    """Each replica that gave up something knew records below `committed` to be that."""
    known = dict.fromkeys(lost, committed)
    complete, still = not unknown, list(unknown)
    return LossReport(
        topic="events",
        partition=partition,
        leader_epoch=epoch,
        complete=complete,
        lost=lost,
        unknown=still,
        committed=known,
        at=at,
    )


def run(
    *operations: Operation,
    losses: list[PowerLoss] | None = None,
    samples: list[Sample] | None = None,
    flush: bool = True,
    unclean: bool = False,
    reports: Sequence[LossReport] = (),
) -> RunHistory:
    facts = RunFacts(
        target="kraft",
        workload="producers",
        plan="power-all",
        seed=1,
        seconds=1.0,
        flush=flush,
        unclean=unclean or bool(reports),
    )
    seen = [sample(5.0), sample(40.0, 1), sample(60.0, 2)] if samples is None else samples
    return RunHistory(facts, History(operations), seen, losses or [], list(reports))


def phases() -> list[Operation]:
    """Faults from 4 to 20 s, and one fault that bit."""
    named = [
        Phase(process="harness", began=at, ended=at, outcome=OK, name=name)
        for name, at in (("chaos", 4.0), ("healed", 20.0), ("drained", 30.0))
    ]
    return [*named, FaultInjected(process="nemesis", began=5.0, ended=6.0, outcome=OK, kind="power-all", bit=True)]


def load(count: int = 100) -> list[Operation]:
    """Enough acknowledged records, before, during and after the faults, all of them read in the end."""
    sends = [send(f"v{number}", number, began=3.0 + 0.2 * number) for number in range(count)]
    records = [(number, f"v{number}") for number in range(count)]
    return [
        *phases(),
        *sends,
        poll(0, records[0], began=6.0),
        poll(1, *records[1:], began=25.0),
        final(*records),
        *contents(count),
    ]


def contents(count: int) -> list[Operation]:
    """What each replica has, and each node of the metadata log."""
    replicas = [
        ReplicaContent(process=str(node), began=92.0, start=0, end=count, batches="b", **PLACE) for node in REPLICAS
    ]  # type: ignore[arg-type]
    metadata = {"topic": METADATA[0], "partition": METADATA[1]}
    return [
        *replicas,
        *(ReplicaContent(process=str(node), began=92.0, start=0, end=9, batches="m", **metadata) for node in REPLICAS),
    ]  # type: ignore[arg-type]
