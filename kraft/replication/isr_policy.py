"""Who counts as in sync, and how far the high watermark may go. Pure.

Sources: KIP-101, KIP-497 (AlterPartition), KIP-903 (broker epochs), KIP-966 (high watermark frozen below min.insync.replicas).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class FollowerState:
    """What the leader knows of one follower. Invariant: `-1 <= log_end_offset`; `caught_up_at <= last_fetch_at` once it has fetched."""

    __slots__ = ("broker_epoch", "caught_up_at", "last_fetch_at", "last_fetch_leader_end", "log_end_offset", "log_start_offset")

    def __init__(self, now: float) -> None:
        self.log_end_offset = -1
        self.log_start_offset = -1
        self.broker_epoch = -1
        self.last_fetch_at = now
        self.last_fetch_leader_end = 0
        self.caught_up_at = now

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, broker_epoch: int, now: float) -> None:
        """Record a Fetch at `offset`:

        it acknowledges everything before. A follower was caught up at its previous fetch if it now has what the leader had then.
        """
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.last_fetch_leader_end:
            self.caught_up_at = max(self.caught_up_at, self.last_fetch_at)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch_at = now
        self.broker_epoch = broker_epoch

    def in_sync(self, leader_end: int, now: float, lag_seconds_max: float) -> bool:
        """replica.lag.time.max.ms: equal to the leader's end, or was within the time."""
        return self.log_end_offset == leader_end or now - self.caught_up_at <= lag_seconds_max


def high_watermark(
    leader_end: int, maximal_isr: Iterable[int], leader_id: int, followers: Mapping[int, FollowerState], current: int, *, isr_size: int, min_isr: int
) -> int:
    """The next high watermark: the minimum end over the maximal ISR; never lower than `current`; frozen while the ISR is below the effective minimum."""
    if isr_size < min_isr:
        return current
    lowest = leader_end
    for replica in maximal_isr:
        if replica != leader_id:
            follower = followers.get(replica)
            lowest = min(lowest, follower.log_end_offset if follower is not None else -1)
    return max(current, lowest)


def effective_min_isr(configured: int, replica_count: int) -> int:
    """min.insync.replicas cannot ask for more replicas than there are."""
    return min(configured, replica_count)


def shrunk_isr(
    isr: tuple[int, ...], leader_id: int, followers: Mapping[int, FollowerState], leader_end: int, now: float, lag_seconds_max: float
) -> tuple[int, ...]:
    """`isr` without the followers that have fallen behind."""

    def keeps(replica: int) -> bool:
        if replica == leader_id:
            return True
        follower = followers.get(replica)
        return follower is not None and follower.in_sync(leader_end, now, lag_seconds_max)

    return tuple(replica for replica in isr if keeps(replica))


def may_join_isr(follower: FollowerState, high_watermark_now: int, epoch_start_offset: int) -> bool:
    """A follower joins once it has all that is committed and something of this leader epoch's beginning."""
    return follower.log_end_offset >= high_watermark_now and follower.log_end_offset >= epoch_start_offset
