"""The rules of the ISR and of the high watermark. Pure.

Sources: KIP-101, KIP-497 (AlterPartition), KIP-903 (broker epochs), KIP-966 (high watermark frozen below
min.insync.replicas).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

NEVER = -math.inf


class IsrRules:
    """The inputs by which a broker's partitions judge followers. All partitions share one instance."""

    __slots__ = ("is_eligible", "lag_seconds_max", "now")

    def __init__(
        self, now: Callable[[], float], lag_seconds_max: Callable[[], float], is_eligible: Callable[[int, int], bool]
    ) -> None:
        """`lag_seconds_max` is replica.lag.time.max.ms, in seconds.

        `is_eligible(broker, epoch)` returns whether that incarnation of a broker may be in an ISR: it is registered,
        and neither fenced nor shutting down (KIP-841, KIP-903).
        """
        self.now = now
        self.lag_seconds_max = lag_seconds_max
        self.is_eligible = is_eligible


class FollowerState:
    """A leader's state of one follower, from its Fetches in this leader epoch. `kraft.raft.core.roles.Progress` is the
    counterpart in the metadata quorum."""

    __slots__ = (
        "broker_epoch",
        "caught_up_at",
        "last_fetch_at",
        "last_fetch_leader_end",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, now: float, *, in_isr: bool = True) -> None:
        """The state at the start of a leader epoch. A member of the ISR has replica.lag.time.max.ms to fetch. Another
        replica must catch up first."""
        # The offset of its last Fetch, which acknowledges everything before it; -1 before its first Fetch.
        self.log_end_offset = -1
        # The start of its log at its last Fetch; -1 before its first.
        self.log_start_offset = -1
        # The incarnation that fetched (KIP-903); -1 before its first Fetch, or if it names none.
        self.broker_epoch = -1
        # When it fetched last, or the term began. It never falls within an incarnation.
        self.last_fetch_at = now if in_isr else NEVER
        # The leader's log end offset at its last Fetch.
        self.last_fetch_leader_end = 0
        # When it last had all of the leader's log. caught_up_at <= last_fetch_at once it has fetched.
        self.caught_up_at = now if in_isr else NEVER

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, broker_epoch: int, now: float) -> None:
        """Record a Fetch at `offset`, which acknowledges everything before it.

        A follower was caught up at its previous Fetch if it now has the leader's log end of that time. For a new
        incarnation (KIP-903), only this Fetch counts.
        """
        if broker_epoch != self.broker_epoch and self.broker_epoch != -1:
            self.caught_up_at = self.last_fetch_at = NEVER
            self.last_fetch_leader_end = leader_end
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.last_fetch_leader_end:
            self.caught_up_at = max(self.caught_up_at, self.last_fetch_at)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch_at = now
        self.broker_epoch = broker_epoch

    def record_idle_fetch(self, at: float) -> None:
        """Record a Fetch at time `at` from the log end of a log that had not grown since the previous Fetch."""
        self.last_fetch_at = max(self.last_fetch_at, at)
        self.caught_up_at = max(self.caught_up_at, at)

    def in_sync(self, leader_end: int, now: float, lag_seconds_max: float) -> bool:
        """Whether the follower is in sync: it has all of the leader's log, or was caught up within
        replica.lag.time.max.ms."""
        return self.log_end_offset == leader_end or now - self.caught_up_at <= lag_seconds_max


def high_watermark(
    leader_end: int,
    maximal_isr: Collection[int],
    leader_id: int,
    followers: Mapping[int, FollowerState],
    current: int,
    *,
    isr_size: int,
    min_isr: int,
    rules: IsrRules,
) -> int:
    """Return the next high watermark: the lowest log end offset over the maximal ISR, which is the ISR plus the
    replicas proposed for it.

    It is never lower than `current`, and does not move while the ISR is smaller than the effective min.insync.replicas.
    It also waits for a caught-up follower that may join the ISR. Otherwise that follower would never catch up under
    load.
    """
    if isr_size < min_isr:
        return current
    lowest = leader_end
    for replica in maximal_isr:
        if replica != leader_id:
            member = followers.get(replica)
            lowest = min(lowest, member.log_end_offset if member is not None else -1)
    for replica, follower in followers.items():
        if (
            follower.log_end_offset < lowest
            and lowest > current
            and replica not in maximal_isr
            and _about_to_join(replica, follower, leader_end, rules)
        ):
            lowest = follower.log_end_offset
    return max(current, lowest)


def _about_to_join(replica: int, follower: FollowerState, leader_end: int, rules: IsrRules) -> bool:
    return follower.in_sync(leader_end, rules.now(), rules.lag_seconds_max()) and rules.is_eligible(
        replica, follower.broker_epoch
    )


def effective_min_isr(configured: int, replica_count: int) -> int:
    """Return the effective min.insync.replicas, which cannot exceed the number of replicas."""
    return min(configured, replica_count)


def shrunk_isr(
    isr: tuple[int, ...],
    leader_id: int,
    followers: Mapping[int, FollowerState],
    leader_end: int,
    now: float,
    lag_seconds_max: float,
) -> tuple[int, ...]:
    """Return `isr` without the followers that have fallen behind."""

    def keeps(replica: int) -> bool:
        if replica == leader_id:
            return True
        follower = followers.get(replica)
        return follower is not None and follower.in_sync(leader_end, now, lag_seconds_max)

    return tuple(replica for replica in isr if keeps(replica))


def reset_removed_followers(
    followers: dict[int, FollowerState], before: Collection[int], isr: Collection[int], now: float
) -> None:
    """Reset the state of followers that the controller removed from the ISR. Such a replica may have lost its disk, so
    it must fetch again before it can be proposed for the ISR."""
    for replica in before:
        if replica in followers and replica not in isr:
            followers[replica] = FollowerState(now, in_isr=False)


def may_join_isr(follower: FollowerState, high_watermark_now: int, epoch_start_offset: int) -> bool:
    """Whether a follower may join the ISR: it has all committed records and has reached the start of this leader
    epoch."""
    return follower.log_end_offset >= high_watermark_now and follower.log_end_offset >= epoch_start_offset
