"""Read as a member of a group. Rebalances change the assigned partitions; positions are committed to the group."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Final

import trio

from kraft.admin import groups
from kraft.admin.errors import UNKNOWN_TOPIC
from kraft.admin.offsets import EARLIEST, LATEST, READ_UNCOMMITTED
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.rpc_client.background import in_background
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.consumer import ConsumedRecord, Consumer
from kraft.rpc_client.consumer_membership import ConsumerMembership
from kraft.rpc_client.errors import DeadlinePassed, NoBroker
from kraft.rpc_client.group_membership import MAX_POLL_SECONDS, GroupMembership
from kraft.rpc_client.partition_backoff import is_worth_waiting

LEAVE_SECONDS = 5.0
NOTHING_UNREAD: Final[Mapping[TopicPartition, int]] = MappingProxyType({})
CLASSIC, CONSUMER = "classic", "consumer"
"""Protocols of groups (group.protocol): members assign among themselves, or the coordinator does (KIP-848)."""


class GroupConsumer:
    """A consumer in a group, opened by `open_group_consumer`. Owned by one task. The records that `poll` returned count
    as processed when `poll` is called again."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        reset: int,
        isolation: int,
        instance_id: str | None,
        max_poll_seconds: float = MAX_POLL_SECONDS,
        commits: bool = True,
        protocol: str = CLASSIC,
        pattern: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.membership: GroupMembership | ConsumerMembership
        if protocol == CONSUMER:
            self.membership = ConsumerMembership(
                cluster,
                group_id,
                topics,
                pattern=pattern,
                instance_id=instance_id,
                assignor=assignor,
                max_poll_seconds=max_poll_seconds,
            )
        else:
            self.membership = GroupMembership(
                cluster, group_id, topics, instance_id=instance_id, max_poll_seconds=max_poll_seconds
            )
        self.consumer = Consumer(cluster, reset=reset, isolation=isolation)
        self._cluster = cluster
        self._obstacle: Exception | None = None
        self._lacks_positions = False
        self._commits = commits
        self._is_done = True

    @property
    def is_done(self) -> bool:
        """Whether all records that `poll` has returned count as processed."""
        return self._is_done

    @property
    def obstacle(self) -> Exception | None:
        """The error that kept the last `poll` from joining or from reading all partitions; None if there was none."""
        return self._obstacle

    @property
    def is_at_end(self) -> bool:
        """Whether partitions are assigned, and all are read up to their end at the last Fetch."""
        positions, ends = self.consumer.positions, self.consumer.ends
        assigned = self.membership.assigned
        return bool(assigned) and all(
            each in positions and each in ends and positions[each] >= ends[each] for each in assigned
        )

    @property
    def is_rewound(self) -> bool:
        """Whether the next `poll` returns to the committed offsets."""
        return self._lacks_positions

    def rewind(self) -> None:
        """Return to the committed offsets at the next poll. Records read since then are read again."""
        self._lacks_positions = True

    async def poll(self, seconds: float) -> list[ConsumedRecord]:
        """Poll as `Consumer.poll` does, but first take part in a pending rebalance, which may take longer than
        `seconds`.

        Unreachable brokers are waited for, across polls. A deleted topic is waited for too, while the others are read.
        If it is recreated, it is read from where `reset` says. Also raises the heartbeat's error if the group has
        removed this member.
        """
        self.membership.idle_since = math.inf
        self._is_done = True
        try:
            found = await self._poll(seconds)
            self._is_done = not found
            return found
        finally:
            self.membership.idle_since = self._cluster.world.clock.now()

    async def poll_or_tell(self, seconds: float) -> list[ConsumedRecord]:
        """Poll as `poll` does, but raise the `obstacle` at the end of the time."""
        found = await self.poll(seconds)
        if self._obstacle is not None:
            raise self._obstacle
        return found

    async def _poll(self, seconds: float) -> list[ConsumedRecord]:
        if self.membership.failure is not None:
            raise self.membership.failure
        try:
            await self._take_part()
        except (Disconnected, TimeoutError, NoBroker, DeadlinePassed, ApiError) as problem:
            if not isinstance(problem, DeadlinePassed) and not is_worth_waiting(problem):
                raise
            if self._cluster.is_hopeless(problem) or self.membership.cluster.is_hopeless(problem):
                raise
            self._obstacle = problem
            await self._cluster.world.clock.sleep(min(seconds, 0.1))
            return []
        if self.membership.assigned:
            found = await self.consumer.poll(min(seconds, 1.0))  # A rebalance must not wait for a long poll.
            self._obstacle = self.consumer.obstacle
            if self.consumer.missed is not None:
                self.consumer.missed = None
                self.membership.look_at_topics()
            return found
        self._obstacle = None
        await self._cluster.world.clock.sleep(min(seconds, 0.1))
        return []

    async def _take_part(self) -> None:
        """Join if a rebalance is due, and find the start positions. Raises ApiError, DeadlinePassed."""
        if self.membership.must_join:
            if self._commits:
                await self.commit()
            self.consumer.assign({})
            await self.membership.join()
            self._lacks_positions = True
        if self._lacks_positions:
            await self._find_positions()
            self._lacks_positions = False

    def processed(
        self, unread: Mapping[TopicPartition, int]
    ) -> tuple[Mapping[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the positions to commit, and the leader epochs of the records before them where known. `unread` are
        the first offsets, by partition, of records that a poll has returned and the application has not read."""
        positions, epochs = self.consumer.positions, self.consumer.epochs
        lower = {each: offset for each, offset in unread.items() if offset < positions.get(each, offset)}
        return {**positions, **lower}, {each: epoch for each, epoch in epochs.items() if each not in lower}

    async def commit(self, unread: Mapping[TopicPartition, int] = NOTHING_UNREAD) -> bool:
        """Commit the positions, but for the records from `unread` on (see `processed`). Returns False if a rebalance
        intervened: other members may read those records again. Positions of a deleted topic are left out. Raises
        ApiError, DeadlinePassed."""
        member = self.membership
        if member.generation < 0:
            return False
        positions, epochs = self.processed(unread)
        try:
            try:
                await self._commit(positions, epochs)
            except ApiError as problem:
                if problem.code not in UNKNOWN_TOPIC:
                    raise
                left = await self._existing(positions)
                if len(left) == len(positions):
                    raise
                await self._commit(left, epochs)
        except ApiError as problem:
            if problem.code not in member.join_again:
                raise
            member.must_join = True
            return False
        return True

    async def _commit(self, positions: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int]) -> None:
        member = self.membership
        if positions:
            await groups.commit_offsets(
                self._cluster,
                member.group_id,
                positions,
                epochs=epochs,
                generation=member.generation,
                member_id=member.member_id,
                instance_id=member.instance_id,
                topic_ids=self.consumer.topic_ids,
            )

    async def _existing(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the positions whose topics still exist with the same id. Raises DeadlinePassed."""
        ids = self.consumer.topic_ids
        names = sorted({each.topic for each in positions})
        known = (await self._cluster.retrying(lambda: self._cluster.metadata(names))).topics
        return {
            partition: offset
            for partition, offset in positions.items()
            if (topic := known.get(partition.topic)) is not None
            and partition.partition < len(topic.partitions)
            and ids.get(partition.topic) in (None, topic.topic_id)
        }

    async def _find_positions(self) -> None:
        """Read the group's committed offsets, after pending transactional commits have ended (KIP-447)."""
        assigned = self.membership.assigned
        committed = await groups.committed_offsets(
            self._cluster, self.membership.group_id, assigned, require_stable=True
        )
        # What is cached may be an earlier topic of the same name, which those offsets are not of.
        self._cluster.forget_topics({each.topic for each in assigned})
        self.consumer.assign(
            {partition: committed[partition].offset for partition in assigned if partition in committed},
            {partition: each.leader_epoch for partition, each in committed.items()},
            unplaced=[partition for partition in assigned if partition not in committed],
        )

    async def close(self, *, commit: bool = True) -> None:
        """Commit the positions (unless `commit` is False) and leave the group. Gives up if the cluster does not answer
        in time."""
        steps: list[Callable[[], Awaitable[object]]] = (
            [self.commit, self.membership.leave] if commit and self._commits else [self.membership.leave]
        )
        with trio.CancelScope(shield=True), self._cluster.world.clock.move_on_after(LEAVE_SECONDS):
            for step in steps:
                try:
                    await step()
                except (KraftError, TimeoutError):
                    continue  # The session ends by itself; records since the last commit are read again.
        self.consumer.assign({})
        self.membership.cluster.close()


@asynccontextmanager
async def open_group_consumer(
    cluster: Cluster,
    group_id: str,
    topics: Sequence[str],
    *,
    reset: int = LATEST,
    isolation: int = READ_UNCOMMITTED,
    instance_id: str | None = None,
    max_poll_seconds: float = MAX_POLL_SECONDS,
    commits: bool = True,
    protocol: str = CLASSIC,
    pattern: str | None = None,
    assignor: str | None = None,
) -> AsyncIterator[GroupConsumer]:
    """Join the group while the block runs. `reset` (EARLIEST or LATEST) is where a partition without a committed offset
    starts. With `protocol` CONSUMER the coordinator assigns (KIP-848): `assignor` names one of its assignors, and
    `pattern` selects topics in addition to `topics`. Raises ValueError for a combination that is not allowed.

    A member that does not call `poll` within `max_poll_seconds` leaves the group. Other members then read from the last
    commit, and the next `poll` joins again. Positions are committed when the block ends. They are not committed if the
    block fails, or is cancelled outside `poll`: records since the last commit are then read again. With `commits`
    False, only `commit` or a transaction (`Transaction.commit_positions`) commits.
    """
    assert reset in (EARLIEST, LATEST)
    if protocol not in (CLASSIC, CONSUMER):
        raise ValueError(f"protocol {protocol!r} is neither {CLASSIC} nor {CONSUMER}")
    if protocol == CLASSIC and (pattern is not None or assignor is not None):
        raise ValueError("topics by pattern, and assignors of the coordinator, want protocol=CONSUMER (KIP-848)")
    consumer = GroupConsumer(
        cluster,
        group_id,
        topics,
        reset=reset,
        isolation=isolation,
        instance_id=instance_id,
        max_poll_seconds=max_poll_seconds,
        commits=commits,
        protocol=protocol,
        pattern=pattern,
        assignor=assignor,
    )

    async def close(ended: BaseException | None) -> None:
        was_cancelled = ended is not None and not isinstance(ended, Exception)
        await consumer.close(commit=ended is None or (was_cancelled and consumer.is_done))

    async with in_background(lambda _: consumer.membership.heartbeat(), close):
        yield consumer
