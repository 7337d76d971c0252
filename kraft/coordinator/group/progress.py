"""Detects members that never commit or are stuck, as opposed to slow ones. Pure.

The coordinator knows a member's commits and the ends of its partitions, but not what the member fetches. A consumer
that stores its offsets elsewhere looks like one that never commits.

The coordinator inspects each assigned partition every few seconds. A `Watch` is the state kept between two inspections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from kraft.common.ids import TopicPartition

TRAILING_RECORDS_MAX: Final = 100
"""A lag of at most this number of records may be transaction markers and aborted records, which a client passes without
a commit. Such a lag counts as waiting records only if the partition has grown since the committed offset last moved."""
WINDOWS_A_STALL: Final = 10
"""The number of windows in the time after which a member counts as stuck. Rates are measured over one window."""
PARTITIONS_NAMED_MAX: Final = 3
"""Limit of partitions named in a summary. Further ones are counted."""


class Pace(StrEnum):
    """The progress of a member on a partition."""

    KEEPS_UP = "keeps_up"
    SLOW = "slow"
    """The committed offset advances, but the lag grows and is longer than the last window."""
    COMMITS_NOTHING = "commits_nothing"
    STANDS_STILL = "stands_still"
    """The member commits, but always the same offset."""

    @property
    def is_stuck(self) -> bool:
        return self in (Pace.COMMITS_NOTHING, Pace.STANDS_STILL)


class Owner(NamedTuple):
    """A member to which partitions are assigned."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None


class Inspection(NamedTuple):
    """An inspection of one partition. `offset` is None if the group has committed none. `commit_ms` is the wall clock
    time of the commit, `end` the high watermark."""

    member_id: str
    offset: int | None
    commit_ms: int
    end: int


class Watch(NamedTuple):
    """The state kept for one partition of a group. Times are in monotonic ms.

    Records from `base` on wait: the committed offset, or without one the end at the first inspection. `still_ms` is
    when `base` last moved or records began to wait; `still_end` was the end then. `slow_ms` is the start of the first
    of the consecutive windows in which the lag grew, `growth` the growth in records a second in the last one.
    """

    member_id: str
    offset: int | None
    base: int
    commit_ms: int
    end: int
    still_ms: float
    still_end: int
    commits_again: bool
    mark_ms: float
    mark_base: int
    mark_end: int
    slow_ms: float | None
    growth: float

    @property
    def waiting(self) -> int:
        return max(0, self.end - self.base)


def watch(before: Watch | None, look: Inspection, now_ms: float, stuck_ms: int) -> Watch:
    """The watch after one more inspection. It restarts on a new owner, on the first commit, and if the partition's end
    moved back."""
    if (
        before is None
        or before.member_id != look.member_id
        or look.end < before.end
        or (look.offset is None) != (before.offset is None)
    ):
        base = look.end if look.offset is None else look.offset
        return Watch(
            member_id=look.member_id,
            offset=look.offset,
            base=base,
            commit_ms=look.commit_ms,
            end=look.end,
            still_ms=now_ms,
            still_end=look.end,
            commits_again=False,
            mark_ms=now_ms,
            mark_base=base,
            mark_end=look.end,
            slow_ms=None,
            growth=0.0,
        )
    base = before.base if look.offset is None else look.offset
    has_moved = base != before.base or before.waiting == 0
    after = before._replace(
        offset=look.offset,
        base=base,
        commit_ms=look.commit_ms,
        end=look.end,
        still_ms=now_ms if has_moved else before.still_ms,
        still_end=look.end if has_moved else before.still_end,
        commits_again=not has_moved and (before.commits_again or look.commit_ms != before.commit_ms),
    )
    return _end_window(after, now_ms, stuck_ms / WINDOWS_A_STALL)


def _end_window(watched: Watch, now_ms: float, window_ms: float) -> Watch:
    """Compare the rates if the window is over, and start the next one."""
    passed_ms = now_ms - watched.mark_ms
    if passed_ms <= 0 or passed_ms < window_ms:
        return watched
    read, written = watched.base - watched.mark_base, watched.end - watched.mark_end
    is_slow = 0 < read < written < watched.waiting
    return watched._replace(
        mark_ms=now_ms,
        mark_base=watched.base,
        mark_end=watched.end,
        slow_ms=(watched.mark_ms if watched.slow_ms is None else watched.slow_ms) if is_slow else None,
        growth=1000 * (written - read) / passed_ms if is_slow else 0.0,
    )


def pace_of(watched: Watch, now_ms: float, stuck_ms: int) -> Pace:
    """The pace on one partition. A member is stuck after `stuck_ms` without progress while records wait."""
    has_grown = watched.end > watched.still_end
    if now_ms - watched.still_ms >= stuck_ms and (
        watched.waiting > TRAILING_RECORDS_MAX or (has_grown and watched.waiting)
    ):
        return Pace.STANDS_STILL if watched.commits_again else Pace.COMMITS_NOTHING
    return Pace.KEEPS_UP if watched.slow_ms is None else Pace.SLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class LateMember:
    """A member that is stuck or slow on some partitions. `since_ms` is the duration. `last_commit_ms` is the wall clock
    time of its latest commit for one of these partitions, -1 for none."""

    group_id: str
    owner: Owner
    pace: Pace
    partitions: tuple[TopicPartition, ...]
    waiting: int
    since_ms: float
    growth: float
    last_commit_ms: int

    @property
    def summary(self) -> str:
        """A one-sentence summary."""
        who = f"{self.owner.client_id or self.owner.member_id} at {self.owner.host.removeprefix('/')}"
        places = ", ".join(f"{topic}-{index}" for topic, index in self.partitions[:PARTITIONS_NAMED_MAX])
        left = len(self.partitions) - PARTITIONS_NAMED_MAX
        where = places + (f" and {left} more partitions" if left > 0 else "")
        records = "1 record waits" if self.waiting == 1 else f"{self.waiting:,} records wait"
        since = duration(self.since_ms)
        if self.pace is Pace.COMMITS_NOTHING:
            return f"{who} has committed nothing for {since}, although {records} in {where}."
        if self.pace is Pace.STANDS_STILL:
            return f"{who} has committed the same offset again and again for {since}, although {records} in {where}."
        return (
            f"{who} is slow: it commits, but its lag of {self.waiting:,} records in {where} has grown for {since}, "
            f"by {self.growth:,.1f} records a second of late."
        )


def late_members(
    group_id: str,
    watches: Mapping[TopicPartition, Watch],
    owners: Iterable[Owner],
    now_ms: float,
    stuck_ms: int,
) -> list[LateMember]:
    """The stuck or slow members of a group, sorted by member id. A member that is both is listed twice, as
    stuck first."""
    by_member: dict[str, dict[Pace, list[TopicPartition]]] = {}
    for place, watched in watches.items():
        pace = pace_of(watched, now_ms, stuck_ms)
        if pace is not Pace.KEEPS_UP:
            by_member.setdefault(watched.member_id, {}).setdefault(pace, []).append(place)
    found = []
    for owner in sorted(owners):
        paces = by_member.get(owner.member_id, {})
        for pace in (Pace.COMMITS_NOTHING, Pace.STANDS_STILL, Pace.SLOW):
            if pace in paces:
                places = sorted(paces[pace])
                found.append(_laggard(group_id, owner, pace, places, [watches[place] for place in places], now_ms))
    return found


def _laggard(
    group_id: str, owner: Owner, pace: Pace, places: list[TopicPartition], watched: list[Watch], now_ms: float
) -> LateMember:
    begun = [each.slow_ms if pace is Pace.SLOW and each.slow_ms is not None else each.still_ms for each in watched]
    return LateMember(
        group_id=group_id,
        owner=owner,
        pace=pace,
        partitions=tuple(places),
        waiting=sum(each.waiting for each in watched),
        since_ms=now_ms - min(begun),
        growth=sum(each.growth for each in watched),
        last_commit_ms=max(each.commit_ms for each in watched),
    )


def duration(ms: float) -> str:
    """Return a time in words, rounded down: `45 s`, `10 min`, `3 h`."""
    seconds = int(ms // 1000)
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
