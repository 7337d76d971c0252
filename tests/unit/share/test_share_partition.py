"""The laws of a share partition, against a model that keeps each record by itself, and what members are told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft.common.errors import ApiError
from kraft.coordinator.share.share_state import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE, StateBatch
from kraft.protocol.error_codes import ErrorCode
from kraft.share.acknowledgement import ACCEPT, GAP, REJECT, RELEASE, RENEW, Acknowledgement
from kraft.share.dead_letters import DELIVERED_TOO_OFTEN, REJECTED, GivenUp
from kraft.share.share_partition import Acquired, Change, Limits, SharePartition
from kraft.share.window import ACQUIRED, CHANGING

LIMITS = Limits(record_locks_max=20, delivery_count_max=3, lock_ms=100)
MEMBERS = ("a", "b", "c")


@dataclass
class Record:
    state: int = AVAILABLE
    count: int = 0
    owner: str = ""
    deadline_ms: int = 0


@dataclass
class Model:
    """Each record by its offset, and what was ever settled."""

    records: dict[int, Record] = field(default_factory=dict)
    start: int = 0
    settled: set[int] = field(default_factory=set)

    def of(self, offset: int) -> Record:
        return self.records.setdefault(offset, Record())


def agree(partition: SharePartition, model: Model) -> None:
    tiles = partition.tiles()
    for left, right in pairwise(tiles):
        assert left.end == right.first
        assert left[2:] != right[2:], "neighbours of one state are one tile"
    for tile in tiles:
        for offset in range(tile.first, tile.end):
            record = model.of(offset)
            assert (tile.state, tile.delivery_count) == (record.state, record.count), offset
    assert partition.start_offset >= model.start, "the start never falls"
    for offset in range(model.start, partition.start_offset):
        assert model.of(offset).state in (ACKNOWLEDGED, ARCHIVED), f"{offset} is not settled, and the start is past it"
    model.start = partition.start_offset


class Lives:
    """Draws what members do, on a partition and on the model alike."""

    def __init__(self, data: st.DataObject) -> None:
        self.data, self.partition, self.model = data, SharePartition(0), Model()
        self.now_ms, self.log_end, self.pending = 0, 0, list[tuple[Change, dict[int, Record]]]()

    def draw(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, max(low, high)))

    def acquire(self) -> None:
        member, first = self.data.draw(st.sampled_from(MEMBERS)), self.partition.next_fetch_offset()
        batches, begin = [], first + self.draw(0, 3)
        for gone in range(first, begin):
            if self.model.of(gone).state == AVAILABLE:
                self.model.of(gone).state = ARCHIVED
        for _ in range(self.draw(1, 4)):
            last = begin + self.draw(0, 5)
            batches.append((begin, last))
            begin = last + 1
        records_max, is_strict = self.draw(1, 12), self.data.draw(st.booleans())
        got = self.partition.acquire(member, first, batches, records_max, LIMITS, self.now_ms, is_strict=is_strict)
        total = 0
        for acquired in got:
            for offset in range(acquired.first, acquired.last + 1):
                record = self.model.of(offset)
                assert record.state == AVAILABLE, f"{offset} is held, changing or settled"
                assert record.count + 1 == acquired.delivery_count <= LIMITS.delivery_count_max
                self.model.records[offset] = Record(ACQUIRED, record.count + 1, member, self.now_ms + LIMITS.lock_ms)
                total += 1
        if is_strict:
            assert total <= records_max

    def settle(self) -> None:
        member = self.data.draw(st.sampled_from(MEMBERS))
        first = self.partition.start_offset + self.draw(0, 12)
        last = first + self.draw(0, 6)
        one = self.data.draw(st.booleans())
        kinds = [self.draw(GAP, RENEW) for _ in range(1 if one else last - first + 1)]
        holds = all(
            self.model.of(offset).state == ACQUIRED and self.model.of(offset).owner == member
            for offset in range(first, last + 1)
        )
        said = [Acknowledgement(first, last, kinds)]
        if not holds:
            with pytest.raises(ApiError) as refused:
                self.partition.acknowledge(member, said, LIMITS, self.now_ms)
            is_beyond = last >= self.partition.end_offset
            assert refused.value.code == (ErrorCode.INVALID_REQUEST if is_beyond else ErrorCode.INVALID_RECORD_STATE)
            return
        change = self.partition.acknowledge(member, said, LIMITS, self.now_ms)
        for offset in range(first, last + 1):
            kind, record = kinds[0] if one else kinds[offset - first], self.model.of(offset)
            if kind == RENEW:
                record.deadline_ms = self.now_ms + LIMITS.lock_ms
        self.begin(change)

    def begin(self, change: Change) -> None:
        held = {}
        for stored in change.stored:
            assert stored.delivery_state in (AVAILABLE, ACKNOWLEDGED, ARCHIVED)
            for offset in range(stored.first_offset, stored.last_offset + 1):
                record = self.model.of(offset)
                assert (record.state, record.count) == (ACQUIRED, stored.delivery_count)
                held[offset] = Record(stored.delivery_state, record.count)
                record.state = CHANGING
        self.pending.append((change, held))

    def end_change(self) -> None:
        if not self.pending:
            return
        change, held = self.pending.pop(self.draw(0, len(self.pending) - 1))
        if self.data.draw(st.booleans()):
            foreseen = self.partition.settled_with(change.stored)
            self.partition.commit(change)
            self.model.records.update(held)
            settled = [tile for tile in self.partition.tiles() if tile.state in (ACKNOWLEDGED, ARCHIVED)]
            assert foreseen == (self.partition.start_offset, sum(tile.end - tile.first for tile in settled))
        else:
            self.partition.roll_back(change)
            for offset in held:
                self.model.of(offset).state = ACQUIRED

    def expire(self) -> None:
        self.now_ms += self.draw(0, 150)
        change = self.partition.expire(self.now_ms, LIMITS)
        due = {
            offset
            for offset, record in self.model.records.items()
            if record.state == ACQUIRED and record.deadline_ms <= self.now_ms
        }
        assert {offset for each in change.stored for offset in range(each.first_offset, each.last_offset + 1)} == due
        self.begin(change)

    def leave(self) -> None:
        member = self.data.draw(st.sampled_from(MEMBERS))
        change = self.partition.release(member, LIMITS)
        held = {
            offset
            for offset, record in self.model.records.items()
            if record.state == ACQUIRED and record.owner == member
        }
        assert {offset for each in change.stored for offset in range(each.first_offset, each.last_offset + 1)} == held
        self.begin(change)

    def lose_log(self) -> None:
        offset = self.partition.start_offset + self.draw(0, 6)
        before = self.partition.end_offset
        self.partition.log_started_at(offset)
        for gone in range(self.model.start, offset):
            record = self.model.of(gone)
            if record.state == AVAILABLE or gone >= before:
                record.state = ARCHIVED


@given(st.data())
@settings(max_examples=150)
def test_members_acquire_release_and_accept_records_as_in_a_model_of_single_records(data: st.DataObject) -> None:
    lives = Lives(data)
    steps = (lives.acquire, lives.settle, lives.end_change, lives.expire, lives.leave, lives.lose_log)
    for _ in range(data.draw(st.integers(1, 25))):
        data.draw(st.sampled_from(steps))()
        agree(lives.partition, lives.model)


def test_the_next_leader_loads_the_stored_state() -> None:
    partition = SharePartition(
        10, [StateBatch(10, 11, ACKNOWLEDGED, 1), StateBatch(14, 15, AVAILABLE, 2), StateBatch(16, 16, ARCHIVED, 3)]
    )
    assert partition.start_offset == 12
    got = partition.acquire("a", 12, [(12, 20)], 100, LIMITS, 0)
    assert got == [(12, 13, 1)], "records delivered often are acquired apart from others"
    assert partition.acquire("a", 14, [(14, 20)], 100, LIMITS, 0) == [(14, 14, 3)], "and for the last time alone"


def test_a_batch_is_acquired_whole_unless_the_limit_is_strict() -> None:
    assert SharePartition(0).acquire("a", 0, [(0, 9), (10, 19)], 12, Limits(), 0) == [(0, 19, 1)]
    assert SharePartition(0).acquire("a", 0, [(0, 9), (10, 19)], 12, Limits(), 0, is_strict=True) == [(0, 11, 1)]


def test_no_more_records_are_locked_than_the_group_allows() -> None:
    partition = SharePartition(0)
    assert partition.acquire("a", 0, [(0, 19)], 100, LIMITS, 0) == [(0, 19, 1)]
    assert partition.acquire("b", 20, [(20, 29)], 100, LIMITS, 0) == []
    partition.commit(partition.acknowledge("a", [Acknowledgement(5, 9, [RELEASE])], LIMITS, 0))
    assert partition.next_fetch_offset() == 5
    assert partition.acquire("b", 5, [(5, 29)], 100, LIMITS, 0) == [(5, 9, 2)]


def test_a_record_released_too_often_is_archived() -> None:
    partition = SharePartition(0)
    for number in range(1, LIMITS.delivery_count_max + 1):
        assert partition.acquire("a", 0, [(0, 0)], 1, LIMITS, 0) == [(0, 0, number)]
        change = partition.release("a", LIMITS)
        partition.commit(change)
    assert change.stored == ((0, 0, ARCHIVED, LIMITS.delivery_count_max),)
    assert partition.start_offset == 1


@pytest.mark.parametrize(
    "acknowledgements",
    [
        [Acknowledgement(3, 2, [ACCEPT])],
        [Acknowledgement(0, 3, [ACCEPT]), Acknowledgement(3, 4, [ACCEPT])],
        [Acknowledgement(4, 5, [ACCEPT]), Acknowledgement(0, 1, [ACCEPT])],
        [Acknowledgement(0, 3, [ACCEPT, ACCEPT])],
        [Acknowledgement(0, 3, [])],
        [Acknowledgement(0, 0, [RENEW + 1])],
        [Acknowledgement(-1, 0, [ACCEPT])],
    ],
)
def test_a_malformed_acknowledgement_is_rejected_and_changes_no_record(acknowledgements: list[Acknowledgement]) -> None:
    partition = SharePartition(0)
    partition.acquire("a", 0, [(0, 9)], 10, LIMITS, 0)
    before = partition.tiles()
    with pytest.raises(ApiError) as refused:
        partition.acknowledge("a", acknowledgements, LIMITS, 0)
    assert refused.value.code == ErrorCode.INVALID_REQUEST
    assert partition.tiles() == before


def test_one_record_not_acquired_by_the_member_rejects_the_whole_acknowledgement() -> None:
    partition = SharePartition(0)
    partition.acquire("a", 0, [(0, 4)], 5, LIMITS, 0)
    partition.acquire("b", 5, [(5, 9)], 5, LIMITS, 0)
    before = partition.tiles()
    for last, code in ((5, ErrorCode.INVALID_RECORD_STATE), (12, ErrorCode.INVALID_REQUEST)):
        with pytest.raises(ApiError) as refused:
            partition.acknowledge("a", [Acknowledgement(0, 0, [ACCEPT]), Acknowledgement(1, last, [REJECT])], LIMITS, 0)
        assert refused.value.code == code
    assert partition.tiles() == before


def test_locks_are_renewed_only_if_the_group_allows_it() -> None:
    partition = SharePartition(0)
    partition.acquire("a", 0, [(0, 4)], 5, LIMITS, 0)
    with pytest.raises(ApiError):
        partition.acknowledge("a", [Acknowledgement(0, 4, [RENEW])], Limits(renews=False), 50)
    assert partition.acknowledge("a", [Acknowledgement(0, 2, [RENEW])], LIMITS, 50).stored == ()
    assert [each[:2] for each in partition.expire(100, LIMITS).stored] == [(3, 4)]


def test_a_hundred_thousand_single_records_in_flight_use_ten_megabytes() -> None:
    window = SharePartition(0)
    limits = Limits(record_locks_max=100_000)
    window.acquire("a", 0, [(0, 99_999)], 100_000, limits, 0)
    kinds = [RELEASE if offset % 2 else ACCEPT for offset in range(99_998)]
    change = window.acknowledge("a", [Acknowledgement(1, 99_998, kinds)], limits, 0)
    window.commit(change)
    tiles = window.tiles()
    assert len(tiles) > 99_000
    parts = (window._window._firsts, window._window._states, window._window._counts)
    size = sum(part.__sizeof__() for part in (*parts, window._window._owners, window._window._deadlines))
    assert size < 10 * 1024 * 1024


LETTERS = replace(LIMITS, writes_letters=True)


def test_a_rejected_record_is_archiving_and_holds_the_start_until_its_letter_is_written() -> None:
    partition = SharePartition(0)
    partition.acquire("a", 0, [(0, 9)], 10, LETTERS, 0)
    change = partition.acknowledge("a", [Acknowledgement(0, 2, [GAP, REJECT, ACCEPT])], LETTERS, 0)
    assert change.stored == (
        StateBatch(0, 0, ARCHIVED, 1),
        StateBatch(1, 1, ARCHIVING, 1),
        StateBatch(2, 2, ACKNOWLEDGED, 1),
    )
    assert change.given_up == (GivenUp(1, 1, 1, REJECTED),)
    assert partition.settled_with(change.stored) == (1, 1)
    partition.commit(change)
    assert (partition.start_offset, partition.next_fetch_offset()) == (1, 10)
    with pytest.raises(ApiError):
        partition.acknowledge("a", [Acknowledgement(1, 1, [ACCEPT])], LETTERS, 0)
    archived = partition.archive_given_up(change.given_up)
    partition.roll_back(archived)
    assert partition.start_offset == 1
    assert partition.settled_with(archived.stored) == (3, 0)
    partition.commit(archived)
    assert partition.start_offset == 3


def test_a_record_delivered_too_often_has_a_letter_whether_it_is_released_or_expires() -> None:
    for released in (True, False):
        partition = SharePartition(0)
        for count in range(1, LETTERS.delivery_count_max + 1):
            assert partition.acquire("a", 0, [(0, 0)], 2, LETTERS, 0) == [(0, 0, count)]
            if released:
                change = partition.acknowledge("a", [Acknowledgement(0, 0, [RELEASE])], LETTERS, 0)
            else:
                change = partition.expire(LETTERS.lock_ms, LETTERS)
            assert bool(change.given_up) == (count == LETTERS.delivery_count_max)
            partition.commit(change)
        assert change.given_up == (GivenUp(0, 0, LETTERS.delivery_count_max, DELIVERED_TOO_OFTEN),)
        assert partition.acquire("a", 0, [(0, 0)], 2, LETTERS, 0) == []


def test_the_next_leader_finds_the_records_whose_letters_may_be_missing() -> None:
    stored = [StateBatch(2, 3, ARCHIVING, 1), StateBatch(4, 4, ARCHIVED, 1), StateBatch(5, 5, ARCHIVING, 3)]
    partition = SharePartition(0, stored)
    assert partition.archiving(LETTERS) == [GivenUp(2, 3, 1, REJECTED), GivenUp(5, 5, 3, DELIVERED_TOO_OFTEN)]
    assert [(each.first, each.last) for each in partition.acquire("a", 0, [(0, 9)], 9, LETTERS, 0)] == [(0, 1), (6, 9)]


def test_no_record_is_archiving_in_a_group_without_dead_letters() -> None:
    partition = SharePartition(0)
    partition.acquire("a", 0, [(0, 9)], 10, LIMITS, 0)
    change = partition.acknowledge("a", [Acknowledgement(0, 0, [REJECT])], LIMITS, 0)
    assert (change.stored, change.given_up) == ((StateBatch(0, 0, ARCHIVED, 1),), ())


def test_a_batch_cut_by_the_limit_is_acquired_whole_across_records_of_other_members() -> None:
    partition = SharePartition(0)
    partition.acquire("a", 0, [(0, 9)], 10, LIMITS, 0)
    partition.commit(partition.acknowledge("a", [Acknowledgement(0, 1, [RELEASE])], LIMITS, 0))
    partition.commit(partition.acknowledge("a", [Acknowledgement(5, 6, [RELEASE])], LIMITS, 0))
    assert partition.acquire("b", 0, [(0, 9), (10, 12)], 2, LIMITS, 0) == [(0, 1, 2), (5, 6, 2)]


def test_a_strict_limit_also_holds_behind_records_of_others() -> None:
    partition = SharePartition(0)
    partition.acquire("a", 0, [(0, 9)], 10, LIMITS, 0)
    partition.commit(partition.acknowledge("a", [Acknowledgement(0, 1, [RELEASE])], LIMITS, 0))
    partition.commit(partition.acknowledge("a", [Acknowledgement(5, 6, [RELEASE])], LIMITS, 0))
    assert partition.acquire("b", 0, [(0, 9), (10, 12)], 3, LIMITS, 0, is_strict=True) == [(0, 1, 2), (5, 5, 2)]


def deliver(partition: SharePartition, records_max: int, limits: Limits) -> list[Acquired]:
    """What the next fetch acquires and gives back."""
    acquired = partition.acquire("a", 0, [(0, 99)], records_max, limits, 0)
    partition.commit(partition.release("a", limits))
    return acquired


def test_records_delivered_often_are_acquired_in_halves_and_for_the_last_time_alone() -> None:
    partition, limits = SharePartition(0), Limits(delivery_count_max=8)
    for count in range(1, 5):
        assert deliver(partition, 100, limits) == [(0, 99, count)]
    assert deliver(partition, 100, limits) == [(0, 49, 5)]
    assert deliver(partition, 100, limits) == [(0, 24, 6)]
    assert deliver(partition, 100, limits) == [(0, 11, 7)]
    assert deliver(partition, 100, limits) == [(0, 0, 8)]
    assert partition.start_offset == 1


def test_a_record_is_delivered_twice_together_with_others_if_it_is_given_up_then() -> None:
    partition, limits = SharePartition(0), Limits(delivery_count_max=2)
    assert deliver(partition, 100, limits) == [(0, 99, 1)]
    assert deliver(partition, 100, limits) == [(0, 99, 2)]


def test_what_may_be_acquired_is_available_or_was_never_delivered() -> None:
    partition = SharePartition(5)
    partition.acquire("a", 5, [(5, 9)], 5, LIMITS, 0)
    partition.commit(partition.acknowledge("a", [Acknowledgement(6, 7, [RELEASE])], LIMITS, 0))
    assert [partition.count_acquirable(*each) for each in ((0, 5), (6, 6), (0, 9), (8, 11), (20, 21))] == [
        0,
        1,
        2,
        2,
        2,
    ]


@pytest.mark.parametrize("how", ["released", "session ended", "expired"])
def test_records_that_come_back_after_the_log_has_deleted_them_are_archived(how: str) -> None:
    partition, limits = SharePartition(0), replace(LIMITS, writes_letters=True)
    partition.acquire("a", 0, [(0, 9)], 10, limits, 0)
    partition.log_started_at(4)
    assert partition.start_offset == 0
    change = {
        "released": lambda: partition.acknowledge("a", [Acknowledgement(0, 9, [RELEASE])], limits, 0),
        "session ended": lambda: partition.release("a", limits),
        "expired": lambda: partition.expire(limits.lock_ms, limits),
    }[how]()
    assert change == Change((StateBatch(0, 3, ARCHIVED, 1), StateBatch(4, 9, AVAILABLE, 1)))
    partition.commit(change)
    assert partition.start_offset == 4
