"""What a read_committed consumer sees of two replicas, against a model: over any interleaving of transactions,
verifications that come late, replication, restarts and changes of leader with truncation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.control_record import ControlRecordType, TransactionMarker, build_marker_batch, marker_of
from kraft.protocol.records.record_batch import batches
from kraft.storage.log_config import LogConfig
from kraft.storage.log_validator import AppendOrigin
from kraft.storage.producers.verification import Verification
from kraft.storage.unified_log import UnifiedLog
from tests.unit.storage.support import NOW_MS, Machine, batch_of

PRODUCERS = (1, 2, 3)
READ_BYTES = 1 << 20
TINY = LogConfig(segment_bytes=400, index_interval_bytes=100)
CONFIGS = (TINY, LogConfig(), LogConfig(index_interval_bytes=100))
DAY_MS = 86_400_000


class Entry(NamedTuple):
    """A batch of the model's log. `outcome` is None for data."""

    first_offset: int
    last_offset: int
    producer_id: int
    is_transactional: bool
    last_sequence: int
    outcome: int | None


@dataclass
class Replica:
    """`loaded_end` is where the log ended when its process started."""

    machine: Machine
    log: UnifiedLog
    loaded_end: int = 0


@dataclass
class Cluster:
    """Two replicas; the first leads. The follower's log is a part of the leader's from its start."""

    config: LogConfig = TINY
    now_ms: int = NOW_MS
    replicas: list[Replica] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    epoch: int = 0
    waiting: dict[int, tuple[Verification | None, bool]] = field(default_factory=dict)
    """By producer: a verification that the coordinator has confirmed and that waits to be used; whether it is void."""

    def __post_init__(self) -> None:
        for seed in range(2):
            machine = Machine(seed)
            self.replicas.append(Replica(machine, machine.log(self.config)))
        self.leader.assign_epoch(0)

    @property
    def leader(self) -> UnifiedLog:
        return self.replicas[0].log

    # The model

    def is_open(self, producer_id: int) -> bool:
        for entry in reversed(self.entries):
            if entry.producer_id == producer_id and entry.outcome is not None:
                return False
            if entry.producer_id == producer_id and entry.is_transactional:
                return True
        return False

    def is_ended(self, producer_id: int) -> bool:
        """Whether the last that the producer has in the log is a marker."""
        own = [entry for entry in self.entries if entry.producer_id == producer_id]
        return bool(own) and own[-1].outcome is not None

    def next_sequence(self, producer_id: int) -> int:
        own = [entry for entry in self.entries if entry.producer_id == producer_id and entry.outcome is None]
        return own[-1].last_sequence + 1 if own else 0

    def transactions(self) -> list[tuple[int, int, int | None, int | None]]:
        """(producer, first offset, offset of the marker, outcome)."""
        found: list[tuple[int, int, int | None, int | None]] = []
        opened: dict[int, int] = {}
        for entry in self.entries:
            if entry.outcome is not None:
                if entry.producer_id in opened:
                    found.append((entry.producer_id, opened.pop(entry.producer_id), entry.first_offset, entry.outcome))
            elif entry.is_transactional:
                opened.setdefault(entry.producer_id, entry.first_offset)
        return found + [(producer_id, first, None, None) for producer_id, first in opened.items()]

    def last_stable_offset(self, settled_end: int = 0) -> int:
        """The first offset that is not settled. Markers below `settled_end` count as replicated."""
        high_watermark = self.leader.high_watermark
        settled_end = max(settled_end, high_watermark)
        unstable = [first for _, first, marker, _ in self.transactions() if marker is None or marker >= settled_end]
        return min([high_watermark, *unstable])

    def visible(self, offset: int) -> list[int]:
        aborted = [
            (producer_id, first, marker)
            for producer_id, first, marker, outcome in self.transactions()
            if outcome == ControlRecordType.ABORT and marker is not None
        ]
        bound = self.leader.last_stable_offset
        return [
            entry.first_offset
            for entry in self.entries
            if entry.outcome is None
            and entry.last_offset >= offset
            and entry.first_offset < bound
            and not (
                entry.is_transactional
                and any(
                    producer_id == entry.producer_id and first <= entry.first_offset < marker
                    for producer_id, first, marker in aborted
                )
            )
        ]

    # What the log shows

    def consumed(self, offset: int) -> list[int]:
        """As a consumer reads: it leaves out what the aborted transactions name, up to their markers."""
        log = self.leader
        bound = log.last_stable_offset
        aborted = sorted(log.aborted_transactions(offset, bound), key=lambda each: each.first_offset)
        skipped: set[int] = set()
        seen: list[int] = []
        for batch in batches(log.read(offset, READ_BYTES, max_offset=bound).read()):
            while aborted and aborted[0].first_offset <= batch.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            marker = marker_of(batch)
            if marker is not None:
                skipped.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in skipped):
                seen.append(batch.base_offset)
        return seen

    def check(self) -> None:
        assert self.leader.log_end_offset == (self.entries[-1].last_offset + 1 if self.entries else 0)
        # A snapshot of producers does not tell which markers were not replicated yet when it was taken, as in Kafka:
        # what they decided stays decided, so that their transactions may be read up to the high watermark.
        earliest, latest = self.last_stable_offset(), self.last_stable_offset(self.replicas[0].loaded_end)
        assert earliest <= self.leader.last_stable_offset <= latest
        for offset in {0, self.leader.high_watermark // 2, self.leader.last_stable_offset}:
            assert self.consumed(offset) == self.visible(offset)

    # Steps

    def verify(self, producer_id: int) -> None:
        """The coordinator confirms the producer's transaction; its batch comes later."""
        verification = self.leader.producers.start_verification(producer_id, 0, 0, NOW_MS, implicit=False)
        assert (verification is None) == self.is_open(producer_id)
        self.waiting[producer_id] = verification, False

    def write(self, producer_id: int, count: int) -> None:
        """A batch of the transaction, with the verification it has, if any."""
        verification, is_void = self.waiting.pop(producer_id, (None, True))
        is_admitted = self.is_open(producer_id) or (verification is not None and not is_void)
        sequence = self.next_sequence(producer_id)
        if is_admitted and not self.is_open(producer_id) and verification is not None:
            verification.lowest_sequence = sequence
        options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        try:
            info = self.leader.append_as_leader(
                batch_of(*[b"v" * 20] * count, is_transactional=True, **options),
                self.epoch,
                now_ms=NOW_MS,
                verification=verification,
            )
        except ApiError as refused:
            assert (refused.code, is_admitted) == (ErrorCode.INVALID_TXN_STATE, False)  # noqa: PT017  # Some are refused.
            return
        assert is_admitted, "a late verification admitted data"
        self.entries.append(Entry(info.first_offset, info.last_offset, producer_id, True, sequence + count - 1, None))

    def write_outside(self, count: int) -> None:
        info = self.leader.append_as_leader(batch_of(*[b"v"] * count), self.epoch, now_ms=NOW_MS)
        self.entries.append(Entry(info.first_offset, info.last_offset, -1, False, -1, None))

    def end(self, producer_id: int, outcome: int) -> None:
        if self.now_ms > NOW_MS and not self.is_open(producer_id):
            return  # A marker alone of a forgotten producer would make it start again (KIP-360).
        data = build_marker_batch(
            TransactionMarker(outcome, 0),
            offset=0,
            timestamp_ms=NOW_MS,
            leader_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
        )
        was_ended = self.is_ended(producer_id)
        info = self.leader.append_as_leader(data, self.epoch, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
        assert info.duplicate == was_ended, "a marker is written once"
        if not info.duplicate:
            self.entries.append(Entry(info.first_offset, info.last_offset, producer_id, True, -1, outcome))
        if producer_id in self.waiting:
            self.waiting[producer_id] = self.waiting[producer_id][0], True

    def transaction(self, producer_id: int, count: int, outcome: int) -> None:
        """A whole one, replicated."""
        self.verify(producer_id)
        self.write(producer_id, count)
        self.end(producer_id, outcome)
        self.replicate(len(self.entries))

    def replicate(self, batch_count: int) -> None:
        """The follower fetches some batches, and the next time it tells so."""
        follower = self.replicas[1].log
        fetched = list(batches(self.leader.read(follower.log_end_offset, READ_BYTES).read()))[:batch_count]
        for batch in fetched:
            follower.append_as_follower(bytes(batch.view), now_ms=NOW_MS)
        self.leader.update_high_watermark(max(self.leader.high_watermark, follower.log_end_offset))
        follower.update_high_watermark(self.leader.high_watermark)

    def restart(self, which: int, how: int) -> None:
        """The process ends and comes back: in good order, or killed, with or without a recovery point. The high
        watermark comes from its checkpoint."""
        replica = self.replicas[which]
        recovery_point = replica.log.recovery_point if how == 1 else 0
        high_watermark = replica.log.high_watermark
        if how == 0:
            replica.log.close()
            recovery_point = replica.log.recovery_point
        replica.machine.kill()
        replica.log = replica.machine.log(
            self.config, clean=how == 0, recovery_point=recovery_point, now_ms=self.now_ms
        )
        replica.log.update_high_watermark(high_watermark)
        replica.loaded_end = replica.log.log_end_offset
        if which == 0:
            self.waiting = {
                producer_id: (verification, True) for producer_id, (verification, _) in self.waiting.items()
            }

    def wait(self) -> None:
        """A day passes, and whatever is idle is forgotten."""
        self.now_ms += DAY_MS
        for replica in self.replicas:
            replica.log.maybe_expire_producers(self.now_ms)
        self.waiting = {producer_id: (verification, True) for producer_id, (verification, _) in self.waiting.items()}

    def change_leader(self) -> None:
        """The follower leads; what it had not fetched is cut off from the other's log."""
        self.replicas.reverse()
        self.epoch += 1
        end = self.leader.log_end_offset
        self.leader.assign_epoch(self.epoch)
        self.replicas[1].log.truncate_to(end, NOW_MS)
        self.entries = [entry for entry in self.entries if entry.last_offset < end]
        self.waiting = {}  # `TransactionalAppend` refuses what was verified in another leader epoch.


PRODUCER = st.sampled_from(PRODUCERS)
STEPS = st.one_of(
    st.tuples(st.just("verify"), PRODUCER),
    st.tuples(st.just("write"), PRODUCER, st.integers(1, 3)),
    st.tuples(st.just("write"), PRODUCER, st.integers(1, 3)),
    st.tuples(
        st.just("transaction"),
        PRODUCER,
        st.integers(1, 3),
        st.sampled_from((ControlRecordType.COMMIT, ControlRecordType.ABORT)),
    ),
    st.tuples(st.just("write_outside"), st.integers(1, 2)),
    st.tuples(st.just("end"), PRODUCER, st.sampled_from((ControlRecordType.COMMIT, ControlRecordType.ABORT))),
    st.tuples(st.just("replicate"), st.integers(0, 4)),
    st.tuples(st.just("restart"), st.integers(0, 1), st.integers(0, 2)),
    st.tuples(st.just("change_leader")),
    st.tuples(st.just("wait")),
)


@given(st.sampled_from(CONFIGS), st.lists(STEPS, max_size=40))
def test_read_committed_consumers_see_the_records_of_the_model(config: LogConfig, steps: list[tuple[str, ...]]) -> None:
    cluster = Cluster(config)
    for name, *arguments in steps:
        getattr(cluster, name)(*arguments)
        cluster.check()
