"""Whatever leaders copy, trim, expire and delete, and however they are elected: what a log has can be read, from the
disk or from the remote tier."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from kraft.remote.copy_decisions import deletable_local_segments, epochs_of_segment, segments_to_copy
from kraft.remote.log_facts import LocalSegment, LogFacts, copied_end_offset, remote_ranges
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.remote_retention import RemoteRetention, expired_segments
from kraft.remote.segment_metadata import ABANDONED, RemoteLogSegmentMetadata
from kraft.world.steps import at_once
from tests.unit.remote.support import DELETED, DELETING, FINISHED, STARTED, segment

BYTES = 10
"""The size of a record."""


class Replica:
    """A log whose record at each offset is known by the epoch that wrote it."""

    def __init__(self, epochs: list[int], leader_epoch: int, log_start: int, bounds: list[int]) -> None:
        self.epochs = epochs
        self.leader_epoch = leader_epoch
        self.log_start = log_start
        self.bounds = bounds
        """Where the segments on its disk begin."""

    def facts(self) -> LogFacts:
        end = len(self.epochs)
        entries: list[tuple[int, int]] = []
        for offset in range(self.log_start, end):
            if not entries or entries[-1][0] != self.epochs[offset]:
                entries.append((self.epochs[offset], offset))
        if not entries or entries[-1][0] != self.leader_epoch:
            entries.append((self.leader_epoch, end))
        segments = [
            LocalSegment(base_offset=base, end_offset=bound, size=(bound - base) * BYTES, timestamp_ms=base)
            for base, bound in zip(self.bounds, [*self.bounds[1:], end], strict=True)
        ]
        return LogFacts(
            segments=segments, leader_epochs=entries, log_start_offset=self.log_start, last_stable_offset=end
        )


class Cluster:
    """One partition: its leader, those who led before and may not know that they do no longer, and the metadata."""

    def __init__(self) -> None:
        self.leader = Replica([], 0, 0, [0])
        self.zombies: list[Replica] = []
        self.cache = RemoteLogMetadataCache()
        self.copies = 0
        self.done: Counter[str] = Counter()
        """How often each thing happened."""

    def append(self, count: int) -> None:
        self.leader.epochs.extend([self.leader.leader_epoch] * count)

    def roll(self, _: int) -> None:
        if self.leader.bounds[-1] < len(self.leader.epochs):
            self.leader.bounds.append(len(self.leader.epochs))

    def copy(self, outcome: int, replica: Replica | None = None) -> None:
        """Of the first segment that is due; one in four is never finished."""
        replica = replica or self.leader
        facts = replica.facts()
        for due in segments_to_copy(facts, self.cache)[:1]:
            self.copies += 1
            new = replace(
                segment(
                    self.copies, due.base_offset, due.end_offset - 1, size=due.size, max_timestamp_ms=due.timestamp_ms
                ),
                leader_epochs=epochs_of_segment(facts, due),
            )
            assert self.cache.replay(new.to_record())
            if outcome % 4:
                assert self.cache.replay(new.state_update(FINISHED, broker_id=1, now_ms=0))
                self.done["copied"] += 1

    def trim(self, kept: int) -> None:
        facts = self.leader.facts()
        count = deletable_local_segments(
            facts, self.cache, local_retention_ms=-1, local_retention_bytes=kept * BYTES, now_ms=0
        )
        assert count < len(facts.segments)
        del self.leader.bounds[:count]
        self.done["trimmed"] += count

    def expire(self, kept: int, replica: Replica | None = None) -> None:
        """`kept` records are to stay, or all where it is 0 or nobody leads any more."""
        retention = RemoteRetention(retention_ms=-1, retention_bytes=kept * BYTES if kept and not replica else -1)
        replica = replica or self.leader
        found = self.expiry(replica, retention)
        if found.log_start_offset > replica.log_start:
            self.done["expired"] += 1
            self.check_start(replica, found.log_start_offset)
            assert self.size_from(replica, found.log_start_offset) >= retention.retention_bytes
            self.start_at(replica, found.log_start_offset)
        for doomed, _ in found.segments:
            self.delete(doomed)
        again = self.expiry(replica, retention)
        assert (again.log_start_offset, again.segments) == (replica.log_start, [])

    def expiry(self, replica: Replica, retention: RemoteRetention):  # type: ignore[no-untyped-def]
        return at_once(
            expired_segments(
                replica.facts(), self.cache, retention, leader_epoch=replica.leader_epoch, being_copied=(), now_ms=0
            )
        )

    def size_from(self, replica: Replica, start: int) -> int:
        facts = replica.facts()
        remote = {
            each.segment_id: each.size for found, each in remote_ranges(facts, self.cache) if found.last_offset >= start
        }
        copied = copied_end_offset(facts, self.cache)
        return sum(remote.values()) + sum(each.size for each in facts.segments if each.end_offset > copied)

    def check_start(self, replica: Replica, start: int) -> None:
        """The log starts again behind a segment, and loses nothing that is on the disk alone."""
        remote = [found for found, _ in remote_ranges(replica.facts(), self.cache)]
        assert start in [found.last_offset + 1 for found in remote]
        for offset in range(max(replica.log_start, replica.bounds[0]), start):
            assert any(found.start_offset <= offset <= found.last_offset for found in remote), offset

    def start_at(self, replica: Replica, offset: int) -> None:
        replica.log_start = offset
        while len(replica.bounds) > 1 and replica.bounds[1] <= offset:
            del replica.bounds[0]

    def delete(self, doomed: RemoteLogSegmentMetadata) -> None:
        self.done["deleted"] += 1
        mark = ABANDONED if doomed.state == STARTED else None
        assert self.cache.replay(doomed.state_update(DELETING, broker_id=1, now_ms=0, custom_metadata=mark))
        assert self.cache.replay(doomed.state_update(DELETED, broker_id=1, now_ms=0))

    def delete_records(self, count: int) -> None:
        self.start_at(self.leader, min(self.leader.log_start + count, len(self.leader.epochs)))

    def elect(self, lost: int) -> None:
        """A replica without the last `lost` records, with segments of its own."""
        old = self.leader
        end = max(len(old.epochs) - lost, old.log_start)
        base = old.bounds[0] if old.bounds[0] <= end else old.log_start
        bounds = list(range(base, end + 1, 3 + lost)) or [base]
        self.done["lost"] += len(old.epochs) - end
        self.zombies.append(Replica(list(old.epochs), old.leader_epoch, old.log_start, list(old.bounds)))
        self.leader = Replica(old.epochs[:end], old.leader_epoch + 1, old.log_start, bounds)

    def zombie_copies(self, number: int) -> None:
        if self.zombies:
            self.copy(number, self.zombies[number % len(self.zombies)])

    def zombie_expires(self, number: int) -> None:
        if self.zombies:
            self.expire(0, self.zombies[number % len(self.zombies)])

    def unreadable(self) -> list[int]:
        log = self.leader
        return [
            offset
            for offset in range(log.log_start, len(log.epochs))
            if offset < log.bounds[0] and self.cache.remote_log_segment_metadata(log.epochs[offset], offset) is None
        ]


WEIGHTS = {
    "append": 6,
    "roll": 5,
    "copy": 6,
    "trim": 2,
    "expire": 2,
    "delete_records": 1,
    "elect": 1,
    "zombie_copies": 2,
    "zombie_expires": 1,
}
SEEDS = 600
OPERATIONS = 50


def operations(seed: int) -> Iterator[tuple[str, int]]:
    chance = random.Random(seed)
    for name in chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=OPERATIONS):
        yield name, chance.randrange(8)


def test_every_record_of_a_log_is_readable_from_one_of_the_tiers() -> None:
    done: Counter[str] = Counter()
    for seed in range(SEEDS):
        cluster = Cluster()
        for name, number in operations(seed):
            getattr(cluster, name)(number)
            assert cluster.unreadable() == [], (seed, name, number)
        done += cluster.done
    assert all(done[each] >= SEEDS // 2 for each in ("copied", "trimmed", "expired", "deleted", "lost")), done


def test_every_sealed_segment_is_eventually_copied() -> None:
    for seed in range(SEEDS):
        cluster = Cluster()
        for name, number in operations(seed):
            getattr(cluster, name)(number)
        facts = cluster.leader.facts()
        for _ in facts.segments:
            cluster.copy(1)
        assert segments_to_copy(facts, cluster.cache) == [], seed
        active = facts.segments[-1].base_offset
        assert copied_end_offset(facts, cluster.cache) >= max(active, facts.local_log_start_offset), seed
        cluster.trim(0)
        assert cluster.leader.bounds == [active], seed
