"""The operations of clients, and the observed states of nodes: one class for each kind.

Every value sent is unique in the whole history. `began` and `ended` are seconds of one clock. `ended` is None while
there is no response, and stays None if none arrives.
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
    """The fields of all operations. `process` is one client, which acts sequentially, or the observed node."""

    OP: ClassVar[str] = ""
    process: str
    began: float
    ended: float | None = None
    outcome: str = INFO
    error: str = ""

    def ok(self, now: float) -> None:
        self.outcome, self.ended = OK, now

    def failed(self, now: float, error: str, *, definite: bool) -> None:
        """End the operation with an error code. `definite` says that neither it nor an earlier attempt had an effect
        (`errors.is_definite`)."""
        self.outcome, self.ended, self.error = FAIL if definite else INFO, now, error


@dataclass(slots=True, kw_only=True)
class Keyed(Operation):
    """An operation on one partition."""

    topic: str
    partition: int

    @property
    def place(self) -> Partition:
        return self.topic, self.partition


@dataclass(slots=True, kw_only=True)
class Send(Keyed):
    """One batch of a producer. `offset` is the acknowledged offset of its first value.

    A batch that an election may lose although it was acknowledged (acks=1 with more than one replica) has the outcome
    INFO.
    """

    OP: ClassVar[str] = "send"
    values: list[str]
    acks: int = -1
    offset: int = -1
    attempts: int = 1
    producer_id: int = -1
    producer_epoch: int = -1
    keys: list[str] | None = None
    """Keys of a compacted topic, one for each value."""


@dataclass(slots=True, kw_only=True)
class Poll(Keyed):
    """The records that one Fetch returned from one partition, in order: [offset, value, leader epoch of the batch].

    `epoch` is the leader epoch under which the leader answered, if the client knows it (it sent the epoch and was not
    refused), else -1. `repositioned` says that the reader did not continue where its last successful poll ended: it was
    assigned again, it sought, or it was reset.
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
    """A request to delete the records below `before`; -1 means up to the high watermark. `low_watermark` is the
    response."""

    OP: ClassVar[str] = "delete_records"
    before: int = -1
    low_watermark: int = -1


@dataclass(slots=True, kw_only=True)
class Commit(Keyed):
    """OffsetCommit of one partition. Each offset is committed once per group and partition. `generation` is -1 without
    membership."""

    OP: ClassVar[str] = "commit"
    group: str
    offset: int
    generation: int = -1
    """For a member of a KIP-848 group, its member epoch."""
    member: str = ""
    may_be_gone: bool = False
    """True for a commit that a power loss may have removed after it was acknowledged, as the product permits. Such a
    commit took effect before `ended`, or never."""


@dataclass(slots=True, kw_only=True)
class Acquired(Keyed):
    """Records of one partition that a member of a share group got, each with a lock: [offset, value, delivery
    count]."""

    OP: ClassVar[str] = "acquired"
    group: str
    since: float
    """Earliest time of the delivery by the broker. The client may have buffered the records, or received the response
    late."""
    limit: int
    """The group's limit of deliveries."""
    lock_seconds: float
    records: list[tuple[int, str, int]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Acknowledged(Keyed):
    """A member of a share group acknowledges records. `kind` is accept, release or reject; "close" if the member ends
    while it holds them."""

    OP: ClassVar[str] = "acknowledged"
    group: str
    kind: str
    offsets: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ShareStart(Keyed):
    """DescribeShareGroupOffsets of one partition: the start offset of a share group; -1 before it has one."""

    OP: ClassVar[str] = "share_start"
    group: str
    offset: int = -1
    is_current: bool = False
    """Whether the response is certainly not that of a deposed share coordinator, if the harness can tell. A deposed
    share coordinator may return an outdated offset, as in Kafka."""


@dataclass(slots=True, kw_only=True)
class Transaction(Operation):
    """One transaction of a producer: the values of its sends, and the offset that it commits for a group, or -1. Its
    sends and its commit have outcomes of their own: FAIL if the transaction was never asked to commit."""

    OP: ClassVar[str] = "transaction"
    transactional_id: str
    values: list[str] = field(default_factory=list)
    group: str = ""
    offset: int = -1
    asked: float = -1.0
    """Time of the first request to commit it; -1 without one."""


@dataclass(slots=True, kw_only=True)
class Committed(Keyed):
    """OffsetFetch of one partition; -1 means that there is no committed offset."""

    OP: ClassVar[str] = "committed"
    group: str
    offset: int = -1
    deposed: bool = False
    """Whether the responding node was no longer the coordinator and did not know it, if the harness can tell. Its
    response may be outdated, as in Kafka."""
    may_lag: bool = False
    """Whether offsets of transactions were requested without require_stable. A producer learns of its commit before the
    markers are written; until then the earlier offset is returned."""


@dataclass(slots=True, kw_only=True)
class Assigned(Operation):
    """A member got its assignment for a generation. `decision` names the leader's assignment, unique in the history."""

    OP: ClassVar[str] = "assigned"
    group: str
    generation: int = -1
    leader: str = ""
    decision: str = ""


@dataclass(slots=True, kw_only=True)
class Owned(Operation):
    """A heartbeat response gave a member of a KIP-848 group its partitions under its epoch. None under a negative
    epoch: the member has left."""

    OP: ClassVar[str] = "owned"
    group: str
    member: str
    epoch: int
    partitions: list[Partition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Said(Operation):
    """A member of a KIP-848 group reported in a heartbeat under its epoch which partitions it owns."""

    OP: ClassVar[str] = "said"
    group: str
    member: str
    epoch: int
    partitions: list[Partition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TopicChange(Operation):
    """A request to give a topic `partitions` partitions, or to delete it (0). `config` has the configs set. `attempts`
    counts the requests."""

    OP: ClassVar[str] = "topic_change"
    topic: str
    partitions: int = 0
    config: dict[str, str] = field(default_factory=dict)
    attempts: int = 1


@dataclass(slots=True, kw_only=True)
class TopicSeen(Operation):
    """After healing: the state of a topic; 0 partitions if it does not exist."""

    OP: ClassVar[str] = "topic_seen"
    topic: str
    partitions: int = 0
    config: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class FinalRead(Keyed):
    """After healing: a new client read the whole partition from `start` to `end` (its latest offset, listed first)."""

    OP: ClassVar[str] = "final_read"
    start: int = 0
    end: int = 0
    records: list[tuple[int, str, int]] = field(default_factory=list)
    keys: list[str] | None = None
    compacted: bool = False
    transactional: bool = False
    """Whether only records of committed transactions were read. Markers and aborted records leave gaps."""


@dataclass(slots=True, kw_only=True)
class Permission(Operation):
    """An administrator granted or revoked a user's permission to write to a topic."""

    OP: ClassVar[str] = "permission"
    user: str
    topic: str
    is_granted: bool = False


@dataclass(slots=True, kw_only=True)
class Asked(Operation):
    """A node authorized a user's request or refused it. `operation` is "write" or "read"."""

    OP: ClassVar[str] = "asked"
    user: str
    topic: str
    operation: str
    is_allowed: bool = False
    node: str = ""
    expected: bool | None = None
    """White box: whether the node's metadata allowed it, if they did not change during the request."""


@dataclass(slots=True, kw_only=True)
class Throttled(Operation):
    """A client was throttled for `seconds`, and sent another request on the same connection. The times are those of
    sending the first request and of the response to the second."""

    OP: ClassVar[str] = "throttled"
    user: str
    seconds: float


@dataclass(slots=True, kw_only=True)
class Phase(Operation):
    """A phase of the run, recorded by the harness: "chaos", "healed" (all faults are over from `began` on) or "drained"
    (everything was read)."""

    OP: ClassVar[str] = "phase"
    name: str


@dataclass(slots=True, kw_only=True)
class FaultInjected(Operation):
    """A fault, recorded by the harness. `role` is the role of its target at the time. `ended` is None if it lasts until
    healing."""

    OP: ClassVar[str] = "fault"
    kind: str
    role: str = ""
    bit: bool = True


@dataclass(slots=True, kw_only=True)
class Stuck(Operation):
    """Recorded by the harness: an event that had to happen did not happen in time."""

    OP: ClassVar[str] = "stuck"
    what: str


@dataclass(slots=True, kw_only=True)
class Unexpected(Operation):
    """A client got a response that no client should get, or a node ended by itself."""

    OP: ClassVar[str] = "unexpected"
    what: str


@dataclass(slots=True, kw_only=True)
class ReplicaState(Keyed):
    """White box: the state of one replica on the node `process` at the time `began`. `life` counts the node's starts.
    All states with the same time form one global snapshot."""

    OP: ClassVar[str] = "replica"
    life: int = 0
    is_leader: bool = False
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: list[int] = field(default_factory=list)
    isr_recorded: list[int] | None = None
    """The in-sync set in the node's metadata for the same partition epoch; None for another epoch."""
    isr_fenced: list[int] = field(default_factory=list)
    """Members of the in-sync set with fenced brokers, all from that metadata. The last member may be fenced."""
    log_start: int = 0
    high_watermark: int = 0
    log_end: int = 0


@dataclass(slots=True, kw_only=True)
class QuorumState(Operation):
    """White box: one controller's view of the metadata quorum at the time `began`. `life` counts the node's starts."""

    OP: ClassVar[str] = "quorum"
    life: int = 0
    epoch: int = 0
    leader: int = -1
    is_leader: bool = False
    high_watermark: int = 0
    voted: int = -1
    """The candidate that the controller voted for in this epoch; -1 for none, or if unknown."""
    saved: bool = False
    """Whether epoch and vote are on the controller's disk, so that other nodes may know them."""
    voters: int = 0
    """For a leader, the number of voters if the voter set is committed; else 0."""
    holders: int = 0
    """For a leader, the number of voters that may have all records below its high watermark on disk."""


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
    """At the end, if the harness can find out: the producer of each batch of a partition, as (first offset, offset
    after the last, producer id, producer epoch)."""

    OP: ClassVar[str] = "writers"
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Rebuilt(Operation):
    """White box, at quiescence: the digest of a state in memory, and of the same state rebuilt from disk."""

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
        Acquired,
        Acknowledged,
        ShareStart,
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
