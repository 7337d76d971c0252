"""Streams groups (KIP-1071) while brokers are killed, a member is silent for longer than its session, and another
leaves and returns:

- A task that one member runs is not given to another before the first has given it up, or its session may be over.
- A member that sends heartbeats in time is not fenced. Its epoch and the epochs of the group never go back.
- The committed offset of a task never goes back, also not by a commit of a member that has lost the task.
- Once everybody is up, each task is active in one member, and each has what the coordinator wants it to have.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError, KraftError
from kraft.coordinator.group.streams.tasks import Task, by_subtopology
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kraft.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kraft.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kraft.rpc_client.connection import ClientConnection, connect
from tests.simulation.clusters import BROKERS, Cluster, simulate

GROUP = "words"
SOURCE, REPARTITION, CHANGELOG = "lines", "words-repartition", "words-changelog"
PARTITIONS = 4
READS = {"0": SOURCE, "1": REPARTITION}
"""The topic that the tasks of a subtopology read."""
TASKS = frozenset((subtopology, partition) for subtopology in READS for partition in range(PARTITIONS))
STATEFUL = frozenset(task for task in TASKS if task[0] == "1")
TOPOLOGY = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(subtopology_id="0", source_topics=[SOURCE], repartition_sink_topics=[REPARTITION]),
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=[TopicInfo(name=REPARTITION)],
            state_changelog_topics=[TopicInfo(name=CHANGELOG)],
        ),
    ],
)
SESSION_SECONDS = 6.0
KEYS = {
    "offsets.topic.num.partitions": "1",
    "default.replication.factor": "3",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "1000",
    "group.streams.num.standby.replicas": "1",
}
NAMED_TOPICS_VERSION = 9
LEAVING = -1
FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
LOST = (KraftError, TimeoutError, OSError)
"""What a client meets while brokers die. It then looks for the coordinator again."""


def _require(code: int, message: str = "") -> None:
    """Raises ApiError for any error code."""
    if code:
        raise ApiError(code, message)


def _ids(tasks: Iterable[Task]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(parts)) for name, parts in by_subtopology(tasks).items()]


def _tasks(ids: Any) -> set[Task]:
    return {(each.subtopology_id, partition) for each in ids for partition in each.partitions}


@asynccontextmanager
async def coordinator(cluster: Cluster, client: str, choices: random.Random) -> AsyncIterator[ClientConnection]:
    """A connection to the coordinator of the group."""
    world = cluster.universe.world_for(client)
    async with connect(world, f"node-{choices.choice(BROKERS)}", 9092) as connection:
        found = (await connection.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]))).coordinators[0]
    _require(found.error_code, found.error_message)
    async with connect(world, found.host, found.port) as connection:
        yield connection


async def committed(connection: ClientConnection) -> dict[Task, int]:
    """The committed offsets of all tasks."""
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[*range(PARTITIONS)]) for name in READS.values()]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)], require_stable=True)
    [group] = (await connection.call(request, version=NAMED_TOPICS_VERSION)).groups
    _require(group.error_code)
    found = {}
    for subtopology, topic in zip(READS, group.topics, strict=True):
        assert topic.name == READS[subtopology]
        for each in topic.partitions:
            _require(each.error_code)
            found[subtopology, each.partition_index] = each.committed_offset
    return found


class History:
    """What members run and have committed, and the laws that were broken, in words."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.acknowledged = dict.fromkeys(TASKS, -1)
        """The highest offset of a commit that was answered."""
        self.refused = 0
        """Commits of members that had lost their tasks."""
        self.fenced = 0
        self.moved = 0
        """Tasks that were given to a member."""
        self.broken: list[str] = []

    def given(self, member: Member, tasks: set[Task], now: float) -> None:
        self.moved += len(tasks)
        for other in self.members:
            if other is not member and now < other.session_end and other.active & tasks:
                both = sorted(other.active & tasks)
                self.broken.append(f"{now:.3f}: {member.name} is given {both}, which {other.name} runs")

    def has_read(self, before: dict[Task, int], read: dict[Task, int], who: str) -> None:
        """Offsets were fetched. `before` are those acknowledged when the fetch began."""
        for task in sorted(TASKS):
            if read[task] < before[task]:
                self.broken.append(f"{who} reads offset {read[task]} of {task} after a commit of {before[task]}")
            self.acknowledged[task] = max(self.acknowledged[task], read[task])


class Member:
    """A stream thread in a process of its own. It gives up tasks before it takes others, and commits before it gives
    up."""

    def __init__(self, cluster: Cluster, name: str, history: History, choices: random.Random) -> None:
        self.cluster = cluster
        self.name = name
        self.history = history
        self.choices = choices
        self.epoch = 0
        self.active: set[Task] = set()
        self.standby: set[Task] = set()
        self.wanted: set[Task] = set()
        """The active tasks of the last assignment."""
        self.positions: dict[Task, int] = {}
        self.session_end = 0.0
        """The coordinator removes the member no earlier, unless it leaves."""
        self.is_unanswered = False
        """The coordinator may have handled a heartbeat whose response was lost."""
        self.silence = 0.0
        self.absence = 0.0
        """Seconds to be silent, or away from the group, from the next turn on."""

    async def run(self) -> None:
        while True:
            try:
                async with coordinator(self.cluster, f"client-{self.name}", self.choices) as connection:
                    while True:
                        await self._turn(connection)
                        await self.cluster.universe.sleep(self.choices.uniform(0.1, 0.6))
            except* LOST:
                await self.cluster.universe.sleep(0.3)

    async def _turn(self, connection: ClientConnection) -> None:
        if self.silence:
            await self._be_silent(connection)
        if self.absence:
            await self._be_away(connection)
        await self._beat(connection)
        gone = self.active - self.wanted
        await self._commit(connection, self.active)
        self.active -= gone
        for task in gone:
            del self.positions[task]
        taken = self.wanted - self.active
        self.active |= taken
        if any(task not in self.positions for task in self.active):
            before = dict(self.history.acknowledged)
            read = await committed(connection)
            self.history.has_read(before, read, self.name)
            self.positions.update((task, max(0, read[task])) for task in self.active - self.positions.keys())

    async def _be_silent(self, connection: ClientConnection) -> None:
        """Be silent for longer than the session lasts, and then go on as if nothing had happened."""
        seconds, self.silence = self.silence, 0.0
        await self.cluster.universe.sleep(seconds)
        try:
            await self._commit(connection, self.active)
        except ApiError as refused:
            self.history.refused += refused.code in (*FENCED, ErrorCode.STALE_MEMBER_EPOCH)

    async def _be_away(self, connection: ClientConnection) -> None:
        seconds, self.absence = self.absence, 0.0
        self._forget()
        try:
            request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=self.name, member_epoch=LEAVING)
            await connection.call(request)
        finally:
            await self.cluster.universe.sleep(seconds)

    def _forget(self) -> None:
        self.epoch = 0
        self.active, self.standby, self.wanted, self.positions = set(), set(), set(), {}

    async def _beat(self, connection: ClientConnection) -> None:
        joining: dict[str, Any] = {}
        if self.epoch == 0:
            joining = {
                "topology": TOPOLOGY,
                "rebalance_timeout_ms": 60_000,
                "process_id": f"process of {self.name}",
                "client_tags": [],
            }
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.name,
            member_epoch=self.epoch,
            active_tasks=_ids(self.active),
            standby_tasks=_ids(self.standby),
            warmup_tasks=[],
            **joining,
        )
        sent = self.cluster.universe.time.now
        was_unanswered, self.is_unanswered = self.is_unanswered, True
        response = await connection.call(request)
        now = self.cluster.universe.time.now
        self.is_unanswered = False
        if response.error_code in FENCED:
            self.history.fenced += 1
            if now < self.session_end and not was_unanswered:
                self.history.broken.append(f"{now:.3f}: {self.name} is fenced in time: {response.error_message}")
            self._forget()
            return
        if response.error_code:
            self.is_unanswered = was_unanswered
            raise ApiError(response.error_code, response.error_message)
        if response.member_epoch < self.epoch:
            self.history.broken.append(f"{self.name} goes from epoch {self.epoch} to {response.member_epoch}")
        self.epoch, self.session_end = response.member_epoch, sent + SESSION_SECONDS
        if response.active_tasks is not None:
            self.wanted, self.standby = _tasks(response.active_tasks), _tasks(response.standby_tasks)
            self.history.given(self, self.wanted - self.active, now)

    async def _commit(self, connection: ClientConnection, tasks: set[Task]) -> None:
        """Process some records, and commit what was processed. Raises ApiError if any commit is refused."""
        chosen = {task for task in tasks if task in self.positions}
        if not chosen:
            return
        topics = []
        for subtopology, partitions in by_subtopology(chosen).items():
            parts = []
            for index in sorted(partitions):
                self.positions[subtopology, index] += self.choices.randint(0, 5)
                offset = self.positions[subtopology, index]
                parts.append(OffsetCommitRequestPartition(partition_index=index, committed_offset=offset))
            topics.append(OffsetCommitRequestTopic(name=READS[subtopology], partitions=parts))
        sent = {task: self.positions[task] for task in chosen}
        request = OffsetCommitRequest(
            group_id=GROUP, member_id=self.name, generation_id_or_member_epoch=self.epoch, topics=topics
        )
        response = await connection.call(request, version=NAMED_TOPICS_VERSION)
        for topic in response.topics:
            for each in topic.partitions:
                _require(each.error_code)
        for task, offset in sorted(sent.items()):
            if offset < self.history.acknowledged[task]:
                self.history.broken.append(
                    f"{self.name} commits offset {offset} of {task} after one of {self.history.acknowledged[task]}"
                )
            self.history.acknowledged[task] = max(self.history.acknowledged[task], offset)


class Observer:
    """Describes the group and fetches its offsets all along."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self.cluster = cluster
        self.history = history
        self.choices = random.Random("observer")
        self.epochs = (0, 0)
        """Of the group and of its assignment."""

    async def run(self) -> None:
        while True:
            try:
                async with coordinator(self.cluster, "observer", self.choices) as connection:
                    while True:
                        await self.look(connection)
                        await self.cluster.universe.sleep(0.5)
            except* LOST:
                await self.cluster.universe.sleep(0.5)

    async def look(self, connection: ClientConnection) -> Any:
        """Returns the described group."""
        before = dict(self.history.acknowledged)
        self.history.has_read(before, await committed(connection), "the observer")
        [group] = (await connection.call(StreamsGroupDescribeRequest(group_ids=[GROUP]))).groups
        _require(group.error_code, group.error_message)
        epochs = (group.group_epoch, group.assignment_epoch)
        if epochs[0] < self.epochs[0] or epochs[1] < self.epochs[1]:
            self.history.broken.append(f"the epochs of the group go from {self.epochs} to {epochs}")
        self.epochs = epochs
        return group


def _check_settled(group: Any, members: Iterable[Member]) -> None:
    described = {each.member_id: each for each in group.members}
    assert group.group_state == "Stable"
    assert group.assignment_epoch == group.group_epoch
    assert sorted(described) == [member.name for member in members]
    for member in members:
        told = described[member.name]
        assert told.member_epoch == member.epoch == group.assignment_epoch
        assert _tasks(told.target_assignment.active_tasks) == _tasks(told.assignment.active_tasks) == member.active
        assert _tasks(told.target_assignment.standby_tasks) == _tasks(told.assignment.standby_tasks) == member.standby
    assert sorted(task for member in members for task in member.active) == sorted(TASKS)
    assert sorted(task for member in members for task in member.standby) == sorted(STATEFUL)


async def _kill(cluster: Cluster, choices: random.Random, *, is_coordinator: bool) -> None:
    victim = choices.choice(BROKERS)
    if is_coordinator:
        topic = cluster.image.topics.by_name("__consumer_offsets")
        assert topic is not None
        victim = str(topic.partitions[0].leader)
    cluster.universe.kill(victim)
    await cluster.universe.sleep(choices.uniform(1, 8))
    await cluster.start(victim)


@pytest.mark.parametrize("seed", range(1, 5))
def test_every_task_has_one_owner_whoever_dies_and_all_are_owned_in_the_end(seed: int) -> None:
    async def story(cluster: Cluster) -> None:
        choices, history, universe = random.Random(seed), History(), cluster.universe
        topic = CreatableTopic(name=SOURCE, num_partitions=PARTITIONS, replication_factor=3)
        response = await cluster.call("2", CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        assert response.topics[0].error_code == 0, response
        members = [Member(cluster, name, history, random.Random(f"{seed}-{name}")) for name in ("a", "b", "c")]
        history.members = members
        observer = Observer(cluster, history)
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(member.run)
            nursery.start_soon(observer.run)
            await universe.sleep(10)
            silent, away = choices.sample(members, 2)
            for number in range(6):
                await universe.sleep(choices.uniform(2, 6))
                if number in (1, 4):
                    silent.silence = SESSION_SECONDS + choices.uniform(1, 8)
                if number in (2, 5):
                    away.absence = choices.uniform(2, 10)
                await universe.sleep(choices.uniform(0, 3))
                await _kill(cluster, choices, is_coordinator=number % 2 == 1)
            await universe.sleep(60)
            nursery.cancel_scope.cancel()
        async with coordinator(cluster, "observer", choices) as connection:
            group = await observer.look(connection)
        assert history.broken == []
        _check_settled(group, members)
        assert history.moved > len(TASKS)
        assert min(history.acknowledged.values()) > 0

    simulate(story, seed=seed, more_keys=KEYS)
