"""A random life of one share group over one topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

from kraft.protocol.error_codes import ErrorCode
from tests.properties.shares_against_kafka.comparison import PAUSE_SECONDS, SETTLED_SECONDS_MAX, Comparison
from tests.properties.shares_against_kafka.expected import KINDS, PARTITIONS, Expected
from tests.properties.shares_against_kafka.sessions import LONG_LOCK_MS, Sessions
from tests.properties.shares_against_kafka.two_sides import Member, Offset, TwoSides
from tests.properties.transactions_against_kafka import Side

Plain = Any


class ShareLife:
    """One group and one topic. `run` raises AssertionError at the first answer that differs, with what led to it."""

    def __init__(self, seed: int, sides: tuple[Side, Side]) -> None:
        self.name = f"life-{seed}"
        self.kind = KINDS[seed % len(KINDS)]
        self._source = Random(seed)
        self._is_committed = self._source.random() < 0.4
        self._members = [Member(f"{self.name}-{letter}", sides) for letter in "abc"]
        self._expected = Expected(self.kind.deliveries_max)
        self._comparison = Comparison(f"{self.name} ({self.kind.name})")
        self._sides = TwoSides(self.name, sides, self._comparison, is_strict=self.kind.is_strict)
        self._sessions = Sessions(self._source, self.kind, self._sides, self._members, self._expected, self._comparison)

    @property
    def compared(self) -> int:
        """The number of answers that were alike."""
        return self._comparison.compared

    @property
    def story(self) -> str:
        return self._comparison.story()

    def make(self) -> None:
        self._sides.create()
        self._sides.configure(
            share_auto_offset_reset="earliest",
            share_delivery_count_limit=str(self.kind.deliveries_max),
            share_record_lock_duration_ms=str(LONG_LOCK_MS),
            share_isolation_level="read_committed" if self._is_committed else "read_uncommitted",
            share_assignment_interval_ms="0",
        )
        self._sides.learn_topic()
        self._join_first(self._members[0])
        for partition in range(PARTITIONS):
            self._produce_to(partition)
        self._offsets(self._members[0])

    def run(self, steps: int) -> None:
        weighted: dict[Callable[[Member], None], int] = {
            self._produce: 14,
            self._sessions.fetch: 26,
            self._sessions.acknowledge: 30,
            self._sessions.acknowledge_wrongly: 8,
            self._beat: 4,
            self._join: 4,
            self._leave: 2,
            self._sessions.end: 3,
            self._sessions.drop: 2,
            self._sessions.expire: 1,
            self._delete_records: 3,
            self._alter: 2,
            self._forget: 1,
            self._describe: 5,
            self._offsets: 5,
        }
        if self._is_committed:
            weighted[self._transaction] = 6
        for _ in range(steps):
            (step,) = self._source.choices(list(weighted), list(weighted.values()))
            step(self._source.choice(self._members))
        for member in self._members:
            self._sessions.end(member)
        self._offsets(self._members[0])

    def close(self) -> None:
        for member in self._members:
            member.close()

    # Records.

    def _produce(self, _: Member) -> None:
        self._produce_to(self._source.randrange(PARTITIONS))

    def _produce_to(self, partition: int) -> None:
        count = self._source.randint(1, self.kind.batch_records_max)
        self._comparison.note(f"produce {count} to {partition}")
        self._append(partition, count, {})

    def _append(self, partition: int, count: int, producers: dict[str, dict[str, Plain]]) -> None:
        self._sides.append(partition, len(self._expected.records[partition]), count, producers)
        self._expected.append(partition, count)

    def _transaction(self, _: Member) -> None:
        """One batch, which is committed or aborted at once."""
        partition, is_committed = self._source.randrange(PARTITIONS), self._source.random() < 0.4
        named = self._sides.begin_transaction(partition)
        first = len(self._expected.records[partition])
        count = self._source.randint(1, self.kind.batch_records_max)
        transactional = {"base_sequence": 0, "is_transactional": True}
        self._append(partition, count, {name: each | transactional for name, each in named.items()})
        self._comparison.note(f"transaction of {count} in {partition}, {'committed' if is_committed else 'aborted'}")
        if not is_committed:
            self._expected.abort(partition, first)
        self._expected.append_marker(partition)
        end = len(self._expected.records[partition])
        self._sides.end_transaction(partition, named, end, is_committed=is_committed)
        # Kafka gives a marker to the second fetch after it has been written.
        self._sessions.take_all(self._source.choice(self._members))

    def _delete_records(self, _: Member) -> None:
        """Below or within what is in flight, or beyond it. Of a batch that the log begins within, Kafka delivers the
        deleted records as well."""
        partition = self._source.randrange(PARTITIONS)
        starts = self._expected.batch_starts[partition]
        offset = self._source.choice([*starts, len(self._expected.records[partition])])
        if offset <= self._expected.log_starts[partition]:
            return
        self._comparison.note(f"delete records of {partition} below {offset}")
        self._sides.delete_records(partition, offset)
        self._expected.delete_below(partition, offset)
        self._sessions.take_all(self._source.choice(self._members))

    # Members.

    def _beat(self, member: Member) -> None:
        """A heartbeat in a wrong epoch, or of somebody unknown."""
        shift = self._source.choice((1, 5, -2))
        told = {
            side.name: self._sides.heartbeat(member, side, member.beats[side.name] + shift if member.is_member else 3)[
                "error_code"
            ]
            for side in self._sides.sides
        }
        self._comparison.same(f"heartbeat of {member.name} in epoch {shift:+}", told)
        self._settle_group()

    def _join(self, member: Member) -> None:
        """Join, join again, or subscribe to something else."""
        also = self._source.choice(([], [], ["no-such-topic"]))
        told = {}
        for side in self._sides.sides:
            answer = self._sides.heartbeat(member, side, 0, subscribed_topic_names=[self.name, *also])
            member.beats[side.name] = answer["member_epoch"]
            told[side.name] = answer["error_code"]
        member.is_member = True
        self._comparison.same(f"{member.name} joins {also}", told)
        self._settle_group()

    def _join_first(self, member: Member) -> None:
        """Kafka's group coordinator may learn of the new topic after the join, and raise the epoch once more."""
        also = self._source.choice(([], [], ["no-such-topic"]))
        for side in self._sides.sides:
            answer = self._sides.heartbeat(member, side, 0, subscribed_topic_names=[self.name, *also])
            member.beats[side.name] = answer["member_epoch"]
        member.is_member = True
        epochs = {
            side.name: self._comparison.until(f"{side.name} assigns", lambda s=side: self._settled(s))["group_epoch"]
            for side in self._sides.sides
        }
        self._sides.raised["kafka"] = epochs["kafka"] - epochs["ours"]
        assert self._sides.raised["kafka"] in (0, 1), epochs
        self._settle_group()

    def _leave(self, member: Member) -> None:
        told = {side.name: self._sides.heartbeat(member, side, -1)["error_code"] for side in self._sides.sides}
        member.is_member = False
        self._comparison.same(f"{member.name} leaves", told)
        self._settle_group()

    def _settle_group(self) -> None:
        """Heartbeats until each member has what is its own; then both sides describe the same group."""
        described = {
            side.name: self._comparison.until(f"{side.name} assigns", lambda s=side: self._settled(s))
            for side in self._sides.sides
        }
        self._comparison.same("described", described)

    def _settled(self, side: Side) -> Plain:
        """The group as it is described once it has settled, else nothing."""
        for member in self._members:
            if member.is_member:
                answer = self._sides.heartbeat(member, side, member.beats[side.name])
                assert answer["error_code"] == ErrorCode.NONE, (side.name, member.name, answer)
                member.beats[side.name] = answer["member_epoch"]
        group = self._sides.described(side)
        members = group["members"]
        epochs = {group["group_epoch"], *(each["member_epoch"] for each in members)}
        if members and (not all(each["has_partitions"] for each in members) or epochs != {group["assignment_epoch"]}):
            return None
        return group

    def _describe(self, _: Member) -> None:
        self._comparison.same("described", {side.name: self._sides.described(side) for side in self._sides.sides})

    # Offsets.

    def _offsets(self, _: Member) -> None:
        """The lag is the same, and Kafka's start offset is not beyond ours."""
        told: dict[str, list[Offset]] = {}

        def are_alike() -> bool:
            """What was released at the end of a session, and has been delivered often enough, is counted later."""
            told.update(self._sides.offsets())
            return all(map(self._are_alike, told["ours"], told["kafka"]))

        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while not are_alike() and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
        for ours, kafka in zip(told["ours"], told["kafka"], strict=True):
            label = f"{ours} of ours, {kafka} of Kafka"
            assert self._are_alike(ours, kafka), f"{self.name}: {label}\n{self.story}"
            self._comparison.note(label)
        self._comparison.compared += 1

    def _are_alike(self, ours: Offset, kafka: Offset) -> bool:
        """Kafka stores a start offset that has moved with the next change.

        What is below the start of the log Kafka archives in memory alone (`SharePartition.updateCacheAndOffsets`, when
        a fetch is out of range). So its lag counts that until the next change of the partition is stored, and from then
        on leaves out what members hold there, which ours counts.
        """
        log_start = self._expected.log_starts[ours.index]
        if (ours.index, ours.error) != (kafka.index, kafka.error) or kafka.start > max(ours.start, log_start):
            return False
        left = self._expected.unsettled(ours.index)
        kept = sum(offset >= log_start for offset in left)
        if ours.lag == len(left) and min(ours.start, kafka.start) < log_start:
            return kept <= kafka.lag <= len(left) + max(0, log_start - kafka.start)
        return ours.lag == kafka.lag and kafka.start <= ours.start

    def _alter(self, member: Member) -> None:
        """With members it is refused. Without any, all that was delivered is forgotten."""
        if self._source.random() < 0.3:
            if any(each.is_member for each in self._members):
                self._comparison.same("alter with members", self._sides.alter_offset(0, 0))
            return
        self._empty_group()
        partition = self._source.randrange(PARTITIONS)
        offset = self._source.randint(0, len(self._expected.records[partition]))
        self._comparison.same(f"alter {partition} to {offset}", self._sides.alter_offset(partition, offset))
        self._sides.raised["ours"] += 1  # Kafka keeps the epoch of a group whose offsets are altered.
        self._expected.begin_at(partition, offset)
        self._join(member)

    def _forget(self, member: Member) -> None:
        """The offsets are deleted: the group begins anew."""
        self._empty_group()
        self._comparison.same("delete offsets", self._sides.delete_offsets())
        for partition in range(PARTITIONS):
            self._expected.begin_at(partition, 0)
        self._join(member)

    def _empty_group(self) -> None:
        """Nobody has a session or a connection, so that neither side keeps what it had loaded."""
        for member in self._members:
            self._sessions.end(member)
            if member.is_member:
                self._leave(member)
        for side in self._sides.sides:
            for member in self._members:
                member.links[side.name].reconnect()
            for _ in range(3):  # The one network thread has seen the closed connections once it has answered twice.
                self._sides.described(side)
        time.sleep(PAUSE_SECONDS * 5)
