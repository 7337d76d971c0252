"""Coverage of runs: how many judged operations used each feature shortly after each fault and under each setting. The
runs write the table themselves, so that a cell that no run visits shows as zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from jepsen.checker.history import History
from jepsen.checker.operations import (
    Acknowledged,
    Acquired,
    Asked,
    Assigned,
    Commit,
    Committed,
    DeleteRecords,
    FaultInjected,
    Keyed,
    ListOffset,
    Operation,
    Owned,
    Permission,
    Poll,
    Send,
    ShareStart,
    Throttled,
    TopicChange,
    TopicSeen,
    Transaction,
)

Visits = Counter[tuple[str, str]]
"""Number of operations by feature and column."""

SHORTLY_SECONDS: Final = 5.0
"""An operation in progress up to this time after a fault counts as one under the fault."""
FAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "orderly stop": ("stop",),
    "rolling restart": ("rolling restart",),
    "kill": ("kill", "kill in mid call"),
    "kill of all": ("kill all",),
    "power loss of one": ("power off", "power off in mid call"),
    "power loss of some": (),
    "power loss of all but one": (),
    "power loss of all": (),
    "unclean election": (),
    "cut": ("cut", "isolate", "half-open"),
    "bad network": ("lossy network", "slow network", "resets"),
    "pause": ("pause",),
    "slow disk": ("slow disk", "dripping disk"),
    "full disk": ("full disk", "no descriptors"),
    "failing disk": ("failing sync", "bad sectors", "broken disk"),
    "clock jump": ("strange clock",),
    "cleaner killed": ("kill cleaner",),
    "failing store": (
        *("store out", "store refuses", "store fails", "store silent"),
        *("store late", "store slow", "store damages"),
    ),
    "ambush": ("ambush",),
    "answer lost": ("answer lost",),
    "missed epoch": ("missed epoch",),
    "coordinator gone": (),
    "feature raised": (),
}
"""Columns with their kinds of faults. A run reports those without a kind."""
GONE: Final = ("stop", "kill", "kill in mid call", "power off", "power off in mid call", "isolate")
FEATURES: Final = (
    "plain produce",
    "idempotent produce",
    "pipelined produce",
    "transactions",
    "plain fetch",
    "fetch sessions",
    "read committed",
    "offsets asked",
    "compaction",
    "offsets of no member",
    "classic groups",
    "consumer groups",
    "share groups",
    "reassignment",
    "topics made and grown",
    "topics recreated",
    "records deleted",
    "users let in and refused",
    "throttled clients",
)
SETTINGS: Final = (
    *("flush default", "flush 1", "one disk", "two disks", "five brokers"),
    *(f"RF {count}" for count in range(1, 6)),
    *(f"min ISR {count}" for count in range(1, 4)),
    *("tiered topics", "users and quotas", "segments as in production", "tiny segments", "transaction state at RF 3"),
    *(f"transaction.version {level}" for level in range(3)),
)
OTHER_READS: Final = {"session-reader": "fetch sessions", "committed": "read committed"}
GROUPS: Final = {"group": "classic groups", "consumer-group": "consumer groups"}


class Moment(NamedTuple):
    """The time at which a fault struck, and the name of its column."""

    column: str
    when: float


def features_of(operation: Operation, moved: frozenset[str]) -> Iterator[str]:
    """The features that the operation uses; none if no client requested it. `moved` are topics whose replicas are
    reassigned all the time."""
    process = operation.process
    match operation:
        case Send():
            yield _kind_of_send(operation)
        case Poll():
            yield next((name for start, name in OTHER_READS.items() if process.startswith(start)), "plain fetch")
        case Transaction():
            yield "transactions"
        case Commit() | Committed() | Assigned() | Owned():
            yield GROUPS.get(operation.group, "offsets of no member")
        case Acquired() | Acknowledged() | ShareStart():
            yield "share groups"
        case ListOffset():
            yield "offsets asked"
        case DeleteRecords():
            yield "records deleted"
        case Asked() | Permission():
            yield "users let in and refused"
        case Throttled():
            yield "throttled clients"
        case TopicChange() | TopicSeen():
            yield "topics recreated" if "/" in operation.topic else "topics made and grown"
        case _:
            return
    if isinstance(operation, Keyed):
        if operation.topic in moved:
            yield "reassignment"
        if operation.topic == "compacted":
            yield "compaction"
        if "/" in operation.topic:
            yield "topics recreated"


def _kind_of_send(send: Send) -> str:
    if send.process.startswith("transactor"):
        return "transactions"
    if send.process.startswith("pipeline"):
        return "pipelined produce"
    return "idempotent produce" if send.producer_id >= 0 else "plain produce"


def moments(history: History) -> Iterator[Moment]:
    """The moment of each fault that had an effect."""
    columns = {kind: column for column, kinds in FAULTS.items() for kind in kinds}
    for fault in history.of(FaultInjected):
        if fault.bit and fault.kind in columns:
            yield Moment(columns[fault.kind], fault.began)
        if fault.bit and fault.role == "coordinator" and fault.kind in GONE:
            yield Moment("coordinator gone", fault.began)


def count(
    history: History,
    struck: Iterable[Moment],
    settings: Iterable[str],
    of_topic: Mapping[str, tuple[str, ...]],
    moved: frozenset[str],
) -> Visits:
    """Count the visits of a history. `settings` hold for the whole run. `of_topic` has more settings for operations on
    one topic; a topic that is not in it has those of the empty name."""
    found, everywhere = Visits(), tuple(settings)
    times: dict[str, list[float]] = {}
    for moment in struck:
        times.setdefault(moment.column, []).append(moment.when)
    for operation in history.operations:
        features = tuple(features_of(operation, moved))
        if not features:
            continue
        began, ended = operation.began - SHORTLY_SECONDS, operation.ended or operation.began
        under = [column for column, whens in times.items() if any(began <= when <= ended for when in whens)]
        own = of_topic.get(operation.topic, of_topic[""]) if isinstance(operation, Keyed) else ()
        found.update((feature, column) for feature in features for column in (*under, *everywhere, *own))
    return found


def table(visits: Visits, columns: Iterable[str]) -> Iterator[str]:
    """Format the visits as a markdown table. The settings and faults are its rows, since they are more than the
    features."""
    yield f"| | {' | '.join(FEATURES)} |"
    yield f"|---|{'---:|' * len(FEATURES)}"
    for column in columns:
        yield f"| {column} | {' | '.join(str(visits[feature, column]) for feature in FEATURES)} |"


def read(lines: Iterable[str]) -> Visits:
    """Read back the counts of all tables that `table` has written into a page."""
    found = Visits()
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == len(FEATURES) + 1 and cells[0] in (*FAULTS, *SETTINGS):
            found.update({(name, cells[0]): int(cell) for name, cell in zip(FEATURES, cells[1:], strict=True)})
    return found


def deserted(known: Visits, visits: Visits) -> list[str]:
    """The cells that `known` has visits for and `visits` has not."""
    return [
        f"{feature} x {column}" for (feature, column), number in known.items() if number and not visits[feature, column]
    ]
