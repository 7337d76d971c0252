"""Work on groups that would block the loop for too long in a heartbeat: matching patterns against all topics, and
computing the targets of large consumer and streams groups.

A heartbeat requests a job by an effect, and the job passes its result to the group in an operation. A group has one job
of a kind at a time. Jobs are not retried: the next heartbeat requests one again if needed. If a target is requested
while one is being computed, another job starts afterwards, from the newest state of the group. It ends immediately if
no target is due.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Protocol

import trio

from kraft.common.errors import ApiError
from kraft.common.quarantine import Quarantine
from kraft.coordinator.group.consumer.assigning import ComputeTarget, adopt_target, compute, snapshot
from kraft.coordinator.group.consumer.consumer_group import ResolvedRegex
from kraft.coordinator.group.consumer.expressions import (
    ResolveExpressions,
    adopt_expressions,
    describable,
    matching,
)
from kraft.coordinator.group.consumer.target import counted_topics
from kraft.coordinator.group.streams import assigning as streams_assigning
from kraft.coordinator.group.streams.assigning import ComputeStreamsTarget
from kraft.coordinator.group.topic_directory import TopicDirectory, TopicNames
from kraft.coordinator.regular_expression import RegularExpression
from kraft.coordinator.shard import Operation
from kraft.world.ports import World
from kraft.world.turns import TURN_ITEMS, in_turns

JOBS_AT_ONCE: Final = 2
"""Limit of concurrent jobs. Others are queued."""
WORK: Final = "consumer group job"
"""Name of the work in health reports. Its items are group ids."""
NAMES_A_TURN: Final = 200
"""Topics authorized between two yields."""


_Key = tuple[int, str, type]
"""Partition, group and kind of a job."""


class GroupJob(Protocol):
    """An effect that requests a job."""

    @property
    def group_id(self) -> str: ...


class ConsumerGroupJobs:
    """Runs the jobs. `write` runs an operation on a partition of `__consumer_offsets`, and raises ApiError."""

    def __init__(
        self,
        topics: TopicDirectory,
        world: World,
        write: Callable[[int, Operation], Awaitable[Any]],
        set_aside: Callable[[], Quarantine],
    ) -> None:
        self._topics = topics
        self._world = world
        self._write = write
        self._set_aside = set_aside
        self._nursery: trio.Nursery | None = None
        self._room = trio.Semaphore(JOBS_AT_ONCE)
        self._under_way: set[_Key] = set()
        self._asked_again: set[_Key] = set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run jobs until cancelled. Jobs that were requested before this call are dropped."""
        async with trio.open_nursery() as job_nursery:
            self._nursery = job_nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def perform(self, partition: int, leader_epoch: int, job: GroupJob) -> None:
        """Start a job after its request was committed. A job of the same kind for the same group must end first."""
        key = (partition, job.group_id, type(job))
        if self._nursery is None:
            return
        if key not in self._under_way:
            self._under_way.add(key)
            self._nursery.start_soon(self._do, key, job)
        elif isinstance(job, ComputeTarget | ComputeStreamsTarget):
            self._asked_again.add(key)

    async def _do(self, key: _Key, job: GroupJob) -> None:
        try:
            await self._do_once(key[0], job)
            while key in self._asked_again:
                self._asked_again.discard(key)
                await self._do_once(key[0], job)
        finally:
            self._asked_again.discard(key)
            self._under_way.discard(key)

    async def _do_once(self, partition: int, job: GroupJob) -> None:
        async with self._room:
            with self._set_aside().guard(WORK, job.group_id):
                await self._try(partition, job)

    async def _try(self, partition: int, job: GroupJob) -> None:
        try:
            if isinstance(job, ComputeTarget):
                await self._compute(partition, job)
            elif isinstance(job, ComputeStreamsTarget):
                await self._compute_streams(partition, job)
            else:
                assert isinstance(job, ResolveExpressions), f"a job that nobody does: {job}"
                await self._write(partition, await self._resolve(job))
        except ApiError as refused:
            self._world.log_sink(
                {"event": "consumer_group_job_refused", "group": job.group_id, "error": str(refused)},
            )

    async def _compute(self, partition: int, job: ComputeTarget) -> None:
        """Compute a target. If topics change while they are counted, the next heartbeat requests another target."""
        due = await self._write(partition, partial(snapshot, group_id=job.group_id))
        if due is not None:
            counts = await in_turns(counted_topics(due.group, self._topics), TURN_ITEMS)
            computed = await self._world.threads.run(compute, due, counts)
            await self._write(partition, partial(adopt_target, computed=computed))

    async def _compute_streams(self, partition: int, job: ComputeStreamsTarget) -> None:
        due = await self._write(partition, partial(streams_assigning.snapshot, group_id=job.group_id))
        if due is not None:
            computed = await self._world.threads.run(streams_assigning.compute, due)
            await self._write(partition, partial(streams_assigning.adopt_target, computed=computed))

    async def _resolve(self, job: ResolveExpressions) -> Operation:
        topics, now_ms = self._topics.all_names(), self._world.clock.wall_ms()
        matched = {text: await self._match(text, topics) for text in job.expressions}
        found = await in_turns(describable(matched, job.may_describe), NAMES_A_TURN)
        resolved = {text: ResolvedRegex(names, topics.version, now_ms) for text, names in found.items()}
        return partial(adopt_expressions, group_id=job.group_id, resolved=resolved)

    async def _match(self, text: str, topics: TopicNames) -> list[str]:
        """The topics that a pattern matches. An unreadable pattern, written by another release, matches nothing."""
        try:
            expression = RegularExpression(text)
        except ApiError as unreadable:
            self._world.log_sink({"event": "consumer_group_expression_unreadable", "error": str(unreadable)})
            return []
        found: list[str] = []
        for start in range(0, len(topics.names), TURN_ITEMS):
            names = topics.names[start : start + TURN_ITEMS]
            found += await self._world.threads.run(matching, expression, names)
        return found
