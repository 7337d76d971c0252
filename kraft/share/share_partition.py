"""One share group's view of one partition on its leader (KIP-932): a state machine without clock, loop or disk.

Records are acquired for a member until a deadline, then acknowledged, released, rejected, or available again when the
deadline passes. A change that must be durable is a `Change`: its records stay locked until `commit` or `roll_back`. The
start offset moves over records that are acknowledged or archived. A record that is given up is archiving until its
letter is written (KIP-1191), if the group has dead letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kraft.common.errors import ApiError
from kraft.coordinator.share.share_state import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE, NO_OFFSET, StateBatch
from kraft.protocol.error_codes import ErrorCode
from kraft.share.acknowledgement import ACCEPT, GAP, REJECT, RELEASE, RENEW, Acknowledgement, by_type, check
from kraft.share.dead_letters import DELIVERED_TOO_OFTEN, REJECTED, GivenUp
from kraft.share.window import ACQUIRED, CHANGING, Tile, Window

STATE_AFTER: Final = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}
TERMINAL: Final = frozenset((ACKNOWLEDGED, ARCHIVED))
THROTTLED_COUNT_MIN: Final = 2
"""Records with a lower delivery count are always acquired together with others."""
MEMBERS_KEPT: Final = 100
"""Above this number, members that hold no records are forgotten."""


Lock = tuple[int, int]
"""The owner and the deadline (ms) of acquired records."""


class Acquired(NamedTuple):
    """Records acquired by a member, `last` inclusive. `delivery_count` includes this delivery."""

    first: int
    last: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change that is not durable yet. Its `stored` is sent to the share coordinator; then call `commit` or
    `roll_back`. Letters of the records that are `given_up` may be written once it is committed. `needs_start`: the
    start offset must be stored, because it is the only sign that some records are finished, and the stored one is still
    below them. Such a change is sent even if `stored` is empty."""

    stored: tuple[StateBatch, ...]
    given_up: tuple[GivenUp, ...] = ()
    needs_start: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing needs to be stored."""
        return not self.stored and not self.needs_start


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The group's settings. `renews`: members may renew their locks. `writes_letters`: a letter is written of each
    record that is given up."""

    record_locks_max: int = 2000
    delivery_count_max: int = 5
    lock_ms: int = 30_000
    renews: bool = True
    writes_letters: bool = False


class SharePartition:
    """The window of one share group over one partition, and the member that holds each acquired record. Members are
    identified by id."""

    def __init__(self, start_offset: int, stored: Iterable[StateBatch] = (), *, is_new: bool = False) -> None:
        """`stored` is the state that the share coordinator has, from `start_offset` on, disjoint and ascending. Records
        between two of its ranges were never delivered. If the group `is_new` here, no start offset is stored."""
        self._window = Window(start_offset)
        for first, last, state, delivery_count in stored:
            if first > self._window.end:
                self._window.extend([Tile(self._window.end, first, AVAILABLE)])
            if last >= self._window.end:
                state_now = state if state in TERMINAL or state == ARCHIVING else AVAILABLE
                self._window.extend([Tile(self._window.end, last + 1, state_now, delivery_count)])
        self._log_start = start_offset
        self._members: dict[str, int] = {}
        self._next_member = 1
        self._move_start()
        self._stored_start = NO_OFFSET if is_new else self._window.start

    @property
    def start_offset(self) -> int:
        """The first record that is neither acknowledged nor archived."""
        return self._window.start

    @property
    def end_offset(self) -> int:
        """One past the last record that was ever acquired."""
        return self._window.end

    @property
    def in_flight(self) -> int:
        """Records between the start and the end."""
        return self._window.record_count

    @property
    def batch_count(self) -> int:
        """Ranges of records in the same state between the start and the end."""
        return len(self._window)

    def settled_with(self, stored: Iterable[StateBatch]) -> tuple[int, int]:
        """Return the start offset once these changes are committed, and the number of records from there on that are
        acknowledged or archived then. Both are stored with the changes."""
        terminal = sorted((first, last + 1) for first, last, state, _ in stored if state in TERMINAL)
        start, complete, index = self._window.start, 0, 0
        for tile in self._window.tiles():
            if tile.state in TERMINAL:
                start, complete = _settle(start, complete, tile.first, tile.end)
            while tile.state in (CHANGING, ARCHIVING) and index < len(terminal) and terminal[index][0] < tile.end:
                first, end = terminal[index]
                start, complete = _settle(start, complete, max(first, tile.first), min(end, tile.end))
                if end > tile.end:
                    break  # It goes on in the next tile.
                index += 1
        return start, complete

    def tiles(self) -> list[Tile]:
        """The ranges of the window, for tests and logs."""
        return list(self._window.tiles())

    def holders(self) -> dict[int, str]:
        """The ids of members by the owners of tiles."""
        return {owner: member_id for member_id, owner in self._members.items()}

    # Acquiring.

    def next_fetch_offset(self) -> int:
        """The first available record; the end if there is none in the window."""
        for tile in self._window.tiles():
            if tile.state == AVAILABLE:
                return tile.first
        return self._window.end

    def count_acquirable(self, first: int, last: int) -> int:
        """The number of records from `first` to `last` that are available, or beyond the window."""
        within = sum(tile.end - tile.first for tile in self._window.tiles(first, last + 1) if tile.state == AVAILABLE)
        return within + max(0, last + 1 - max(first, self._window.end))

    def acquire(
        self,
        member_id: str,
        fetch_offset: int,
        batches: Sequence[tuple[int, int]],
        records_max: int,
        limits: Limits,
        now_ms: int,
        *,
        is_strict: bool = False,
    ) -> list[Acquired]:
        """Lock available records for a member. `batches` (first and last offset each, ascending) were fetched from
        `fetch_offset`. Offsets between `fetch_offset` and the first batch are no longer in the log, and are archived.

        Acquires about `records_max` records. A batch that begins below the limit is acquired whole, unless `is_strict`
        (KIP-1206). `record_locks_max` limits the size of the window. Records with a high delivery count are acquired
        separately: fewer together at each delivery, and one alone at the last. So a bad record does not use up the
        deliveries of other records.
        """
        if not batches or records_max <= 0:
            return []
        if fetch_offset < batches[0][0]:
            self._archive_available(fetch_offset, batches[0][0])
        lock = self._owner(member_id), now_ms + limits.lock_ms
        acquired, may_go_on = self._acquire_again(batches, records_max, limits, lock, is_strict=is_strict)
        left = records_max - sum(each.last + 1 - each.first for each in acquired)
        if may_go_on and left > 0:
            acquired += self._acquire_new(batches, left, limits, lock, is_strict=is_strict)
        if not acquired:
            self._forget_idle()
        return acquired

    def _acquire_again(
        self, batches: Sequence[tuple[int, int]], records_max: int, limits: Limits, lock: Lock, *, is_strict: bool
    ) -> tuple[list[Acquired], bool]:
        """Acquire available records of the window. Returns them, and whether records beyond the window may follow."""
        acquired: list[Acquired] = []
        changed: list[Tile] = []
        count, end = 0, batches[-1][1] + 1
        stop = end
        for tile in self._window.tiles(batches[0][0], end):
            if tile.first >= stop:
                break
            if tile.state != AVAILABLE:
                changed.append(tile)
                continue
            room = records_max - count
            together_max = _together_max(tile.delivery_count, room, limits)
            if together_max is not None:
                if acquired:
                    stop = tile.first
                    break
                stop = min(stop, tile.end, tile.first + together_max)
            elif 0 < room <= tile.end - tile.first:
                stop = min(stop, tile.first + room if is_strict else _batch_end(batches, tile.first + room - 1))
            taken_end = min(tile.end, stop)
            acquired.append(Acquired(tile.first, taken_end - 1, tile.delivery_count + 1))
            changed.append(Tile(tile.first, taken_end, ACQUIRED, tile.delivery_count + 1, *lock))
            if taken_end < tile.end:
                changed.append(tile._replace(first=taken_end))
            count += taken_end - tile.first
        self._window.replace(changed)
        return acquired, stop == end

    def _acquire_new(
        self, batches: Sequence[tuple[int, int]], records_max: int, limits: Limits, lock: Lock, *, is_strict: bool
    ) -> list[Acquired]:
        """Acquire at most `records_max` records beyond the window, while it has fewer than `record_locks_max`. Unless
        `is_strict`, the last batch is acquired whole."""
        first, end = self._window.end, batches[-1][1] + 1
        room = min(records_max, limits.record_locks_max - self._window.record_count)
        if room <= 0 or first >= end:
            return []
        taken_end = min(end, first + room)
        if taken_end < end and not is_strict:
            taken_end = min(end, _batch_end(batches, taken_end - 1))
        self._window.extend([Tile(first, taken_end, ACQUIRED, 1, *lock)])
        return [Acquired(first, taken_end - 1, 1)]

    def archive(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Archive the available and acquired records of the ranges (first and last offset). They belong to aborted
        transactions, or are no longer in the log."""
        for first, last in ranges:
            self._window.replace(
                [
                    Tile(tile.first, tile.end, ARCHIVED, tile.delivery_count)
                    if tile.state in (AVAILABLE, ACQUIRED)
                    else tile
                    for tile in self._window.tiles(first, last + 1)
                ]
            )
        self._move_start()

    def log_started_at(self, offset: int) -> bool:
        """Archive available records below the start of the log. Acquired ones stay until they are settled, and are
        archived if they are released. Returns whether the window has changed."""
        self._log_start = max(self._log_start, offset)
        before = self._window.start, self._window.end
        self._archive_available(self._window.start, offset)
        return before != (self._window.start, self._window.end)

    def _archive_available(self, first: int, end: int) -> None:
        """Archive the available records from `first` to before `end`, including those beyond the window."""
        if end > self._window.end:
            self._window.extend([Tile(self._window.end, end, ARCHIVED)])
        self._window.replace(
            [
                Tile(tile.first, tile.end, ARCHIVED, tile.delivery_count) if tile.state == AVAILABLE else tile
                for tile in self._window.tiles(first, end)
            ]
        )
        self._move_start()

    # Settling.

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement], limits: Limits, now_ms: int
    ) -> Change:
        """Apply all acknowledgements of a member, or none. Renewals take effect immediately.

        Records below the start offset are already settled, and are skipped. Some of them may be archived in memory
        only, because they left the log: a log start can go back when a broker is killed. So the start offset is stored
        before such a record counts as finished.

        Raises ApiError: INVALID_REQUEST for a malformed acknowledgement, INVALID_RECORD_STATE if the member does not
        hold a record.
        """
        check(acknowledgements)
        owner = self._members.get(member_id)
        settled: list[_Settled] = []
        changed: list[list[Tile]] = []
        for each in acknowledgements:
            first, end = max(each.first, self._window.start), each.last + 1
            if first >= end:
                continue
            if end > self._window.end:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"records up to {each.last} were never delivered: only those before {self._window.end} were",
                )
            if RENEW in each.types and not limits.renews:
                raise _invalid_state("the group does not allow to renew locks (share.renew.acknowledge.enable)")
            tiles: list[Tile] = []
            for tile in self._window.tiles(first, end):
                if tile.state != ACQUIRED or tile.owner != owner:
                    raise _invalid_state(f"{member_id} does not hold the records {tile.first} to {tile.end - 1}")
                for kind, kind_first, kind_end in by_type(each, tile.first, tile.end):
                    piece = tile._replace(first=kind_first, end=kind_end)
                    if kind == RENEW:
                        tiles.append(piece._replace(deadline_ms=now_ms + limits.lock_ms))
                        continue
                    settled += self._settled(piece, kind, limits)
                    tiles.append(piece._replace(state=CHANGING))
            changed.append(tiles)
        for tiles in changed:
            self._window.replace(tiles)
        return replace(_change(settled), needs_start=any(map(self._needs_start, acknowledgements)))

    def _needs_start(self, acknowledgement: Acknowledgement) -> bool:
        """Whether the acknowledgement finishes records between the stored start offset and the start offset in
        memory."""
        first, end = max(acknowledgement.first, self._stored_start), min(acknowledgement.last + 1, self._window.start)
        return first < end and any(kind in (ACCEPT, REJECT) for kind, *_ in by_type(acknowledgement, first, end))

    def release(self, member_id: str, limits: Limits) -> Change:
        """Release every record that a member holds, for example when its session ends."""
        owner = self._members.get(member_id)
        return self._release([tile for tile in self._window.tiles() if tile.owner == owner], limits)

    def expire(self, now_ms: int, limits: Limits) -> Change:
        """Release the records whose lock has passed its deadline."""
        return self._release([tile for tile in self._window.tiles() if tile.deadline_ms <= now_ms], limits)

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a lock."""
        return min((tile.deadline_ms for tile in self._window.tiles() if tile.state == ACQUIRED), default=None)

    def _release(self, tiles: Sequence[Tile], limits: Limits) -> Change:
        held = [tile for tile in tiles if tile.state == ACQUIRED]
        for tile in held:
            self._window.replace([tile._replace(state=CHANGING)])
        return _change([each for tile in held for each in self._settled(tile, RELEASE, limits)])

    def _settled(self, tile: Tile, kind: int, limits: Limits) -> Iterator[_Settled]:
        """Settle records. Released ones that the log no longer has are archived as if they were gaps."""
        if kind == RELEASE and tile.first < self._log_start:
            yield _settled(tile._replace(end=min(tile.end, self._log_start)), GAP, limits)
            tile = tile._replace(first=self._log_start)
        if tile.first < tile.end:
            yield _settled(tile, kind, limits)

    def archiving(self, limits: Limits) -> list[GivenUp]:
        """Return the records that an earlier leader has given up, and whose letters may not be written. Their cause is
        not stored: it is derived from their delivery count."""
        return [
            GivenUp(
                tile.first,
                tile.end - 1,
                tile.delivery_count,
                DELIVERED_TOO_OFTEN if tile.delivery_count >= limits.delivery_count_max else REJECTED,
            )
            for tile in self._window.tiles()
            if tile.state == ARCHIVING
        ]

    def archive_given_up(self, given_up: Iterable[GivenUp]) -> Change:
        """Archive records whose letters are written. They stay archiving if the change is rolled back."""
        return Change(
            tuple(_merged(StateBatch(each.first, each.last, ARCHIVED, each.delivery_count) for each in given_up))
        )

    def commit(self, change: Change) -> None:
        """Apply a change that is durable."""
        for first, last, state, delivery_count in change.stored:
            self._window.replace(
                [
                    Tile(tile.first, tile.end, state, delivery_count) if tile.state in (CHANGING, ARCHIVING) else tile
                    for tile in self._window.tiles(first, last + 1)
                ]
            )
        self._move_start()
        self._forget_idle()

    def start_is_stored(self, start_offset: int) -> None:
        """Record that the share coordinator has stored this start offset."""
        self._stored_start = max(self._stored_start, start_offset)

    def roll_back(self, change: Change) -> None:
        """Undo a change that could not be written: its records are acquired again, until their deadline."""
        for first, last, *_ in change.stored:
            self._window.replace(
                [
                    tile._replace(state=ACQUIRED) if tile.state == CHANGING else tile
                    for tile in self._window.tiles(first, last + 1)
                ]
            )

    # Bookkeeping.

    def _move_start(self) -> None:
        """Move the start offset over settled records."""
        for tile in self._window.tiles():
            if tile.state not in TERMINAL:
                self._window.drop_before(tile.first)
                return
        self._window.drop_before(self._window.end)

    def _owner(self, member_id: str) -> int:
        owner = self._members.get(member_id)
        if owner is None:
            owner = self._members[member_id] = self._next_member
            self._next_member += 1
        return owner

    def _forget_idle(self) -> None:
        """Drop the owner numbers of members that hold no records, once there are more than MEMBERS_KEPT."""
        if len(self._members) > MEMBERS_KEPT:
            holding = {tile.owner for tile in self._window.tiles()}
            self._members = {name: owner for name, owner in self._members.items() if owner in holding}


def _settle(start: int, complete: int, first: int, end: int) -> tuple[int, int]:
    """The start offset and the number of settled records beyond it, with the records from `first` to before `end`
    settled too."""
    return (end, complete) if first == start else (start, complete + end - first)


def _together_max(delivery_count: int, records_max: int, limits: Limits) -> int | None:
    """The number of records with this delivery count that may be acquired together; None for no limit. From half of the
    allowed deliveries on it is half of `records_max`, then a quarter and so on. Before the last delivery it is one."""
    throttled = max(THROTTLED_COUNT_MIN, -(-limits.delivery_count_max // 2))
    if delivery_count < throttled:
        return None
    is_last = delivery_count >= limits.delivery_count_max - 1
    return 1 if is_last else max(1, records_max >> (delivery_count - throttled + 1))


def _batch_end(batches: Sequence[tuple[int, int]], offset: int) -> int:
    """Return one past the end of the batch that contains `offset`, or `offset` + 1 if no batch contains it."""
    for first, last in batches:
        if first <= offset <= last:
            return last + 1
    return offset + 1


class _Settled(NamedTuple):
    """Settled records, and the cause if they are given up and their letters are to be written."""

    batch: StateBatch
    cause: str | None


def _settled(tile: Tile, kind: int, limits: Limits) -> _Settled:
    """Settle records by the type of their acknowledgement. Released records are given up once they have reached the
    limit of deliveries. An offset without a record has no letter."""
    state, cause = STATE_AFTER[kind], None
    if kind == REJECT:
        cause = REJECTED
    elif state == AVAILABLE and tile.delivery_count >= limits.delivery_count_max:
        state, cause = ARCHIVED, DELIVERED_TOO_OFTEN
    if cause is not None:
        state, cause = (ARCHIVING, cause) if limits.writes_letters else (ARCHIVED, None)
    return _Settled(StateBatch(tile.first, tile.end - 1, state, tile.delivery_count), cause)


def _change(settled: Sequence[_Settled]) -> Change:
    given_up = [
        GivenUp(batch.first_offset, batch.last_offset, batch.delivery_count, cause)
        for batch, cause in settled
        if cause is not None
    ]
    return Change(tuple(_merged(each.batch for each in settled)), tuple(given_up))


def _merged(stored: Iterable[StateBatch]) -> list[StateBatch]:
    merged: list[StateBatch] = []
    for each in stored:
        if merged and merged[-1].last_offset + 1 == each.first_offset and merged[-1][2:] == each[2:]:
            merged[-1] = merged[-1]._replace(last_offset=each.last_offset)
        else:
            merged.append(each)
    return merged


def _invalid_state(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD_STATE, message)
