"""What clients did and saw, and what nodes were seen to be: one class a kind of operation.

Every value sent is unique in the whole history. `began` and `ended` are seconds of one clock; `ended` is None while,
or because, nobody answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

OK: Final = "ok"
FAIL: Final = "fail"
INFO: Final = "info"

Partition = tuple[str, int]


@dataclass(slots=True, kw_only=True)
class Operation:
    """What all have. `process` is one client that does one thing after the other, or the node that is observed."""

    OP: ClassVar[str] = ""
    process: str
    began: float
    ended: float | None = None
    outcome: str = INFO
    error: str = ""

    def ok(self, now: float) -> None:
        self.outcome, self.ended = OK, now

    def failed(self, now: float, error: str, *, definite: bool) -> None:
        """It ended with an error code; `definite` says that it had no effect (`errors.is_definite`), nor had earlier
        attempts at the same."""
        self.outcome, self.ended, self.error = FAIL if definite else INFO, now, error


@dataclass(slots=True, kw_only=True)
class Keyed(Operation):
    """About one partition."""

    topic: str
    partition: int

    @property
    def place(self) -> Partition:
        return self.topic, self.partition


@dataclass(slots=True, kw_only=True)
class Send(Keyed):
    """One batch of a producer. `offset` is that of its first value, as it was told.

    What an election may take although it was acknowledged (acks=1 with more than one replica) has the outcome INFO.
    """

    OP: ClassVar[str] = "send"
    values: list[str]
    acks: int = -1
    offset: int = -1
    attempts: int = 1
    producer_id: int = -1
    producer_epoch: int = -1
    keys: list[str] | None = None
    """Of a compacted topic, one for each value."""


@dataclass(slots=True, kw_only=True)
class Poll(Keyed):
    """What one Fetch brought of one partition: [offset, value, leader epoch of its batch], in the order in which
    they came.

    `epoch` is the leader epoch under which the leader answered, as far as the client knows (it sent it and was not
    refused), else -1. `repositioned` says that the reader did not go on from where its last successful poll ended
    (assigned anew, sought, reset).
    """

    OP: ClassVar[str] = "poll"
    position: int
    records: list[tuple[int, str, int]] = field(default_factory=list)
    high_watermark: int = -1
    log_start: int = -1
    epoch: int = -1
    repositioned: bool = False


@dataclass(slots=True, kw_only=True)
class ListOffset(Keyed):
    """ListOffsets: `kind` is "latest" or "earliest". `epoch` as for a poll."""

    OP: ClassVar[str] = "list_offset"
    kind: str = "latest"
    offset: int = -1
    epoch: int = -1


@dataclass(slots=True, kw_only=True)
class DeleteRecords(Keyed):
    """Everything below `before` shall go; -1 means up to the high watermark. `low_watermark` is the answer."""

    OP: ClassVar[str] = "delete_records"
    before: int = -1
    low_watermark: int = -1


@dataclass(slots=True, kw_only=True)
class Commit(Keyed):
    """OffsetCommit of one partition. Each offset is committed once per group and partition. `generation` is -1
    without a membership."""

    OP: ClassVar[str] = "commit"
    group: str
    offset: int
    generation: int = -1
    """Of a member of a consumer group of KIP-848: its epoch."""
    member: str = ""
    may_be_gone: bool = False
    """It took effect, if ever, before it ended; a loss of power may have taken it since, as the promise allows."""


@dataclass(slots=True, kw_only=True)
class Transaction(Operation):
    """One transaction of a producer: the values of its sends, and the offset that it commits for a group, unless that
    is -1. Each of its sends, and its commit, has its outcome: FAIL where nobody ever asked to commit it."""

    OP: ClassVar[str] = "transaction"
    transactional_id: str
    values: list[str] = field(default_factory=list)
    group: str = ""
    offset: int = -1
    asked: float = -1.0
    """When somebody first asked to commit it; -1 if nobody ever did."""


@dataclass(slots=True, kw_only=True)
class Committed(Keyed):
    """OffsetFetch of one partition; -1 is "none"."""

    OP: ClassVar[str] = "committed"
    group: str
    offset: int = -1
    deposed: bool = False
    """Whether the node that answered was no coordinator any more and did not know it yet, where a harness can tell.
    What it says may be old, as in Kafka."""
    may_lag: bool = False
    """Whether it was asked without require_stable, of offsets that go with transactions. A producer learns that its
    transaction is committed before the markers are written: until then the older offset is told."""


@dataclass(slots=True, kw_only=True)
class Assigned(Operation):
    """A member got its share of a generation. `decision` names the leader's one decision, unique in the history."""

    OP: ClassVar[str] = "assigned"
    group: str
    generation: int = -1
    leader: str = ""
    decision: str = ""


@dataclass(slots=True, kw_only=True)
class Owned(Operation):
    """A member of a consumer group of KIP-848 was told what it owns under its epoch from now on; nothing, under a
    negative epoch: that it has left."""

    OP: ClassVar[str] = "owned"
    group: str
    member: str
    epoch: int
    partitions: list[Partition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Said(Operation):
    """A member of a consumer group of KIP-848 said in a heartbeat under its epoch that it owns just these."""

    OP: ClassVar[str] = "said"
    group: str
    member: str
    epoch: int
    partitions: list[Partition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TopicChange(Operation):
    """A topic is to have `partitions`; 0: it is to be deleted. `config` holds what was set. `attempts` is how often
    it was asked for."""

    OP: ClassVar[str] = "topic_change"
    topic: str
    partitions: int = 0
    config: dict[str, str] = field(default_factory=dict)
    attempts: int = 1


@dataclass(slots=True, kw_only=True)
class TopicSeen(Operation):
    """After healing: what a topic is, 0 partitions if it is not there."""

    OP: ClassVar[str] = "topic_seen"
    topic: str
    partitions: int = 0
    config: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class FinalRead(Keyed):
    """After healing: a fresh client read the whole partition, from `start` up to `end` (its latest offset, asked for
    before)."""

    OP: ClassVar[str] = "final_read"
    start: int = 0
    end: int = 0
    records: list[tuple[int, str, int]] = field(default_factory=list)
    keys: list[str] | None = None
    compacted: bool = False
    transactional: bool = False
    """Whether only records of committed transactions were read: markers, and what was aborted, leave holes."""


@dataclass(slots=True, kw_only=True)
class Permission(Operation):
    """An administrator gave a user the right to write to a topic, or took it again."""

    OP: ClassVar[str] = "permission"
    user: str
    topic: str
    is_granted: bool = False


@dataclass(slots=True, kw_only=True)
class Asked(Operation):
    """A node let a user in, or refused what it may not do: `operation` is "write" or "read"."""

    OP: ClassVar[str] = "asked"
    user: str
    topic: str
    operation: str
    is_allowed: bool = False
    node: str = ""
    expected: bool | None = None
    """White box: whether the node's metadata allow it, where they said the same from the beginning to the end."""


@dataclass(slots=True, kw_only=True)
class Throttled(Operation):
    """A client was told to wait for `seconds`, and asked again on the same connection: from when it sent the one
    request to when the next was answered."""

    OP: ClassVar[str] = "throttled"
    user: str
    seconds: float


@dataclass(slots=True, kw_only=True)
class Phase(Operation):
    """The harness: `name` is "chaos", "healed" (all faults are over from `began` on) or "drained" (all was read)."""

    OP: ClassVar[str] = "phase"
    name: str


@dataclass(slots=True, kw_only=True)
class FaultInjected(Operation):
    """The harness: a fault of some kind upon something that had `role` at the time. `ended` when it was over, None
    if it lasts until healing."""

    OP: ClassVar[str] = "fault"
    kind: str
    role: str = ""
    bit: bool = True


@dataclass(slots=True, kw_only=True)
class Stuck(Operation):
    """The harness waited for something that must come, and it did not come in time."""

    OP: ClassVar[str] = "stuck"
    what: str


@dataclass(slots=True, kw_only=True)
class Unexpected(Operation):
    """A client got an answer that no client should get, or a node ended by itself."""

    OP: ClassVar[str] = "unexpected"
    what: str


@dataclass(slots=True, kw_only=True)
class ReplicaState(Keyed):
    """White box: one replica on one node (`process`) in one of its lives, at one moment (`began`). All states of one
    moment belong to one global snapshot."""

    OP: ClassVar[str] = "replica"
    life: int = 0
    is_leader: bool = False
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: list[int] = field(default_factory=list)
    isr_recorded: list[int] | None = None
    """What the node's metadata says for the same partition epoch; None where it has another epoch."""
    isr_fenced: list[int] = field(default_factory=list)
    """Members of the in-sync set whose brokers are fenced, all as that metadata has it; a last member may be."""
    log_start: int = 0
    high_watermark: int = 0
    log_end: int = 0


@dataclass(slots=True, kw_only=True)
class QuorumState(Operation):
    """White box: one controller's view of the metadata quorum, at one moment of one of its lives."""

    OP: ClassVar[str] = "quorum"
    life: int = 0
    epoch: int = 0
    leader: int = -1
    is_leader: bool = False
    high_watermark: int = 0
    voted: int = -1
    """For whom it voted in this epoch; -1 for nobody, or where that is not known."""
    saved: bool = False
    """Whether epoch and vote are on its disk, so that others may have been told of them."""
    voters: int = 0
    """Of a leader whose voters are those of a committed record: how many there are; else 0."""
    holders: int = 0
    """And how many of them may have everything below its high watermark on their disks."""


@dataclass(slots=True, kw_only=True)
class ImageState(Operation):
    """White box: digest of a node's metadata image at an offset."""

    OP: ClassVar[str] = "image"
    offset: int
    digest: str


@dataclass(slots=True, kw_only=True)
class ReplicaContent(Keyed):
    """White box, at quiescence: digests of what a replica holds from the common log start to the high watermark."""

    OP: ClassVar[str] = "content"
    start: int
    end: int
    batches: str
    epochs: str = ""
    producers: str = ""


@dataclass(slots=True, kw_only=True)
class Writers(Keyed):
    """At rest, where a harness can tell: who wrote each batch of a partition, as (first offset, offset after the
    last, producer id, producer epoch)."""

    OP: ClassVar[str] = "writers"
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Rebuilt(Operation):
    """White box, at quiescence: a digest of a state as it lives, and of the same state rebuilt from disk."""

    OP: ClassVar[str] = "rebuilt"
    what: str
    live: str
    rebuilt: str


KINDS: Final[dict[str, type[Operation]]] = {
    kind.OP: kind
    for kind in (
        Send,
        Poll,
        ListOffset,
        DeleteRecords,
        Commit,
        Transaction,
        Committed,
        Assigned,
        Owned,
        Said,
        TopicChange,
        TopicSeen,
        FinalRead,
        Permission,
        Asked,
        Throttled,
        Phase,
        FaultInjected,
        Stuck,
        Unexpected,
        ReplicaState,
        QuorumState,
        ImageState,
        ReplicaContent,
        Writers,
        Rebuilt,
    )
}
