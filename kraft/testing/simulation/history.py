"""What clients of a simulated cluster did and saw, kept in a form that `checks` can judge.

Every value sent is unique in the whole run. An operation ends as acknowledged, failed (it certainly had no effect) or unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ACKNOWLEDGED = "acknowledged"
FAILED = "failed"
UNKNOWN = "unknown"

Partition = tuple[str, int]


@dataclass(slots=True)
class Send:
    """One batch of one producer. Times are universal seconds."""

    producer: str
    partition: Partition
    first: int
    values: tuple[str, ...]
    began: float
    ended: float | None = None
    outcome: str = UNKNOWN
    offset: int = -1


@dataclass(slots=True)
class Commits:
    """One committer of one partition of one group: numbers only grow."""

    group: str
    partition: Partition
    acknowledged: int = -1
    unknown: list[int] = field(default_factory=list)
    acknowledgements: int = 0


@dataclass(slots=True)
class TopicLife:
    """A topic that somebody made and perhaps grew and deleted."""

    name: str
    created: str = UNKNOWN
    partitions_least: int = 0
    deleted: str | None = None
    creation_unanswered: bool = False
    """A request to make it may still be under way (a cut link delivers when it heals), and make it anew after it was deleted."""


@dataclass(slots=True)
class History:
    """All of one run."""

    sends: list[Send] = field(default_factory=list)
    reads: dict[Partition, dict[int, str]] = field(default_factory=dict)
    commits: list[Commits] = field(default_factory=list)
    topics: list[TopicLife] = field(default_factory=list)
    assignments: dict[tuple[int, str], str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    generations: int = 0
    power_losses: bool = False
    """Whether power may fail: then what was read but not acknowledged may be gone, for readers see a record before it is flushed."""
    acknowledged_values: set[str] = field(default_factory=set)

    def acknowledge(self, send: Send, offset: int) -> None:
        send.outcome, send.offset = ACKNOWLEDGED, offset
        self.acknowledged_values.update(send.values)

    def may_vanish(self, value: str) -> bool:
        return self.power_losses and value not in self.acknowledged_values

    def violation(self, text: str) -> None:
        """Noted once, however often it is found."""
        if text not in self.violations:
            self.violations.append(text)

    def saw(self, partition: Partition, offset: int, value: str, who: str) -> None:
        """A reader found `value`: one offset never holds two."""
        reads = self.reads.setdefault(partition, {})
        known = reads.setdefault(offset, value)
        if known != value and self.may_vanish(known):
            reads[offset] = value
        elif known != value:
            self.violation(f"{who} reads {value} at {partition[0]}-{partition[1]} offset {offset}, where {known} was read before")

    def assigned(self, generation: int, leader: str, tag: str, who: str) -> None:
        """A member got its share: all members of a generation have it from one leader's one decision."""
        self.generations += 1
        known = self.assignments.setdefault((generation, leader), tag)
        if known != tag:
            self.violation(f"{who} is assigned {tag} in generation {generation}, where {known} was assigned to others")

    def acknowledged_records(self) -> int:
        return len(self.acknowledged_values)
