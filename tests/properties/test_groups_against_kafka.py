"""Our group coordinator and Apache Kafka's give the same answers to the same random lives of groups, sessions that
end included (those in a soak)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, TopicPartition

from jepsen.java.kafka import ApacheKafka
from kraft.common.internal_topics import OFFSETS_TOPIC
from kraft.coordinator.group.classic.classic_group import COMPLETING_REBALANCE, PREPARING_REBALANCE
from kraft.coordinator.group.config import GroupCoordinatorConfig
from kraft.coordinator.group.consumer.describe import describe_consumer_group
from kraft.coordinator.group.consumer.settings import ConsumerGroupSettings
from kraft.coordinator.group.describe import describe_group
from kraft.coordinator.group.group_shard import GroupShard
from kraft.coordinator.group.shard_state import GroupShardState
from kraft.coordinator.shard import LogRecord
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kraft.world.steps import at_once
from tests.capabilities import require_capability
from tests.properties.groups_against_kafka import ArbitraryChoice, Kafka, Life, Ours, Side
from tests.properties.migrations_against_kafka import PARTITIONS as TOPIC_PARTITIONS
from tests.properties.migrations_against_kafka import TOPIC, MigratingLife, OursOfBothKinds
from tests.unit.coordinator.fakes import MemoryLog
from tests.unit.coordinator.group_host import rebuild
from tests.unit.coordinator.service import PARTITIONS, Service

pytestmark = pytest.mark.java
SOAK = os.environ.get("KRAFT_SOAK") == "1"
OFFSETS_PARTITIONS = "offsets.topic.num.partitions"
SETTINGS = {OFFSETS_PARTITIONS: "4", "group.consumer.assignment.interval.ms": "0"}
WRITTEN = range(200, 240 if SOAK else 208)
MIGRATIONS = range(100, 140 if SOAK else 104)
LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    require_capability("java17")
    require_capability("mvn")
    directory: Path = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(directory, settings=SETTINGS, heap="-Xmx512M") as kafka:
        yield kafka.port


async def make_topics(port: int) -> dict[str, bytes]:
    """Topics t and u with two partitions on Kafka, one for migrations, and the topic of group offsets, which it makes
    late. Returns
    their ids."""
    kafka = Kafka(port)
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in "tu"]
    topics.append(CreatableTopic(name=TOPIC, num_partitions=TOPIC_PARTITIONS, replication_factor=1))
    await kafka.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=topics, timeout_ms=10_000), "c")
    with trio.fail_after(30):
        while True:
            found = await kafka.ask(
                ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), "c"
            )
            if found.coordinators[0].error_code == 0:
                break
            await trio.sleep(0.2)
    metadata = await kafka.ask(
        ApiKey.METADATA,
        12,
        MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("t", "u", TOPIC)]),
        "c",
    )
    return {topic.name: bytes(topic.topic_id) for topic in metadata.topics}


async def until_coordinated(port: int, group: str) -> None:
    """Kafka loads its partitions of group offsets one after the other; a moment on a quiet machine."""
    kafka = Kafka(port)
    with trio.fail_after(60):
        while True:
            described = await kafka.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=[group]), "c")
            if described.groups[0].error_code not in LOADING:
                return
            await trio.sleep(0.1)


def make_service(topic_ids: dict[str, bytes]) -> Service:
    """Our coordinator, which knows Kafka's topics by their ids."""
    service = Service(MemoryLog(), GroupCoordinatorConfig(group_initial_rebalance_delay_ms=0))
    service.topics.names.append(TOPIC)
    service.topics.counts[TOPIC] = TOPIC_PARTITIONS
    service.topics.topic_id = topic_ids.get
    service.topics.topic_name = lambda topic_id: next(
        (name for name, each in topic_ids.items() if each == bytes(topic_id)), None
    )
    service.consumer_configs.settings = ConsumerGroupSettings(assignment_interval_ms=0)
    return service


@pytest.mark.parametrize(
    ("seeds", "steps", "session_ms", "rebalance_ms"),
    [
        pytest.param(range(25 if SOAK else 3), 60, 30_000, 60_000, id="sessions-that-last"),
        pytest.param(range(25, 31), 50, 6_000, 8_000, id="sessions-that-end", marks=pytest.mark.soak),
    ],
)
def test_group_responses_equal_those_of_kafka(port, seeds, steps, session_ms, rebalance_ms):
    async def lives() -> int:
        topic_ids = await make_topics(port)
        service = make_service(topic_ids)
        compared = 0
        async with trio.open_nursery() as nursery:
            await nursery.start(service.coordinator.run)
            for partition in range(PARTITIONS):
                service.coordinator.on_election(partition, 1)
            await trio.sleep(0.1)
            for seed in seeds:
                life = Life(
                    Random(seed),
                    Ours(service),
                    Kafka(port),
                    topic_ids,
                    session_ms=session_ms,
                    rebalance_ms=rebalance_ms,
                )
                await until_coordinated(port, life.group)
                try:
                    await life.run(steps)
                except* ArbitraryChoice:
                    pass
                compared += life.compared
            nursery.cancel_scope.cancel()
        return compared

    assert trio.run(lives) > 20 * len(seeds)


def test_group_responses_equal_those_of_kafka_while_members_change_the_protocol(port):
    async def lives() -> tuple[int, set[str]]:
        topic_ids = await make_topics(port)
        service = make_service(topic_ids)
        compared, kinds = 0, set()
        async with trio.open_nursery() as nursery:
            await nursery.start(service.coordinator.run)
            for partition in range(PARTITIONS):
                service.coordinator.on_election(partition, 1)
            await trio.sleep(0.1)
            for seed in MIGRATIONS:
                life = MigratingLife(Random(seed), OursOfBothKinds(service), Kafka(port), topic_ids)
                await until_coordinated(port, life.group)
                try:
                    await life.run(60)
                except* ArbitraryChoice:
                    pass
                compared += life.compared
                kinds |= life.kinds
            nursery.cancel_scope.cancel()
        return compared, kinds

    compared, kinds = trio.run(lives)
    assert compared > 15 * len(MIGRATIONS)
    assert kinds == {"classic", "consumer"}


class Sharer:
    """A member of a consumer group that says what it has, and has given up what the last answer took from it."""

    def __init__(self, side: Side, group: str, name: str) -> None:
        self.side, self.group, self.member = side, group, f"{group}-{name}"
        self.epoch = 0
        self.owned: list[TopicPartitions] = []

    @property
    def has(self) -> set[int]:
        return {partition for topic in self.owned for partition in topic.partitions}

    async def beat(self) -> Sharer:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=self.owned,
        )
        answer = await self.side.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, "c")
        assert answer.error_code == ErrorCode.NONE
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = [
                TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
                for topic in answer.assignment.topic_partitions
            ]
        return self

    async def beat_until(self, has: int) -> Sharer:
        """Until it has so many partitions: a target may be computed beside the answers."""
        with trio.fail_after(30):
            while True:
                if len((await self.beat()).has) == has:
                    return self
                await trio.sleep(0.02)

    async def commit(self, partition: int, epoch: int) -> int:
        """The error code of a commit under the epoch."""
        part = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=self.member,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
        )
        answer = await self.side.ask(ApiKey.OFFSET_COMMIT, 9, request, "c")
        return answer.topics[0].partitions[0].error_code


async def commit_what_was_given_up(side: Side, group: str) -> list[int]:
    """A member that is asked for more before it has given up the first of its partitions stays in its epoch all the
    while: the codes of its commits of the first, once another has it, in that epoch and when that is over."""
    first = await Sharer(side, group, "a").beat_until(has=12)
    epoch, all_of_them = first.epoch, first.has
    second = await Sharer(side, group, "b").beat()
    await first.beat_until(has=6)
    (given_up, *_) = sorted(all_of_them - first.has)
    await second.beat()
    third = await Sharer(side, group, "c").beat()
    with trio.fail_after(30):
        while third.epoch <= second.epoch:
            await trio.sleep(0.02)
            await third.beat()
    await first.beat_until(has=4)
    with trio.fail_after(30):
        while True:
            if given_up in (await second.beat()).has | (await third.beat()).has:
                break
            await trio.sleep(0.02)
    assert first.epoch == epoch < min(second.epoch, third.epoch)
    in_its_epoch = await first.commit(given_up, epoch)
    await first.beat()
    assert first.epoch > epoch
    return [in_its_epoch, await first.commit(given_up, epoch)]


def test_a_member_may_commit_for_any_partition_in_its_current_epoch(port):
    async def asked() -> tuple[list[int], list[int]]:
        topic_ids = await make_topics(port)
        service = make_service(topic_ids)
        async with trio.open_nursery() as nursery:
            await nursery.start(service.coordinator.run)
            await service.lead()
            await until_coordinated(port, "shared")
            ours = await commit_what_was_given_up(OursOfBothKinds(service), "shared")
            theirs = await commit_what_was_given_up(Kafka(port), "shared")
            nursery.cancel_scope.cancel()
        return ours, theirs

    ours, theirs = trio.run(asked)
    assert ours == theirs == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]


def read_group_log(port: int) -> list[LogRecord]:
    """All that Kafka has written to its topic of group offsets, partition after partition."""
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "reads-alone", "log_level": 0})
    try:
        places = [TopicPartition(OFFSETS_TOPIC, index, 0) for index in range(int(SETTINGS[OFFSETS_PARTITIONS]))]
        ends = {place.partition: consumer.get_watermark_offsets(place, 30)[1] for place in places}
        consumer.assign(places)
        found: dict[int, list[LogRecord]] = {index: [] for index in ends}
        give_up = time.monotonic() + 60
        while sum(map(len, found.values())) < sum(ends.values()):
            assert time.monotonic() < give_up, "Kafka does not give what it has"
            message = consumer.poll(0.1)
            if message is not None and message.offset() < ends[message.partition()]:
                found[message.partition()].append((message.key(), message.value()))
        return [record for index in sorted(found) for record in found[index]]
    finally:
        consumer.close()


async def told_by_kafka(kafka: Kafka, group: str) -> tuple[Any, Any]:
    """The group as Kafka describes it, whichever its kind is, and its offsets."""
    request = ConsumerGroupDescribeRequest(group_ids=[group])
    described = (await kafka.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request, "c")).groups[0]
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        classic = await kafka.ask(ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=[group]), "c")
        described = classic.groups[0]
    wanted = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    offsets = (await kafka.ask(ApiKey.OFFSET_FETCH, 8, wanted, "c")).groups[0]
    found = {
        (topic.name, each.partition_index): (each.committed_offset, each.committed_leader_epoch, each.metadata)
        for topic in offsets.topics
        for each in topic.partitions
    }
    return kafka.plain(described), found


def read_by_us(state: GroupShardState, group: str, service: Service) -> tuple[Any, Any]:
    side = Ours(service)
    consumers = state.consumer_group(group)
    if consumers is None:
        described = side.plain(describe_group(state, group, 6))
    else:
        described = side.plain(at_once(describe_consumer_group(consumers, service.topics, "uniform")))
    found = {
        (place.topic, place.partition): (each.offset, each.leader_epoch, each.metadata)
        for place, each in state.offsets_of(group).items()
    }
    return described, found


def test_records_written_by_kafka_for_migrating_groups_are_read(port):
    """A node of ours that takes Kafka's log over knows the same members, epochs, partitions and offsets. A classic
    group that rebalances is as it was before: what is under way has no records."""

    async def lives() -> tuple[int, set[str]]:
        topic_ids = await make_topics(port)
        service = make_service(topic_ids)
        shard = GroupShard(
            GroupCoordinatorConfig(),
            service.topics,
            service.consumer_configs,
            service.share_configs,
            service.streams_configs,
        )
        read, kinds = 0, set()
        async with trio.open_nursery() as nursery:
            await nursery.start(service.coordinator.run)
            await service.lead()
            for seed in WRITTEN:
                life = MigratingLife(Random(seed), OursOfBothKinds(service), Kafka(port), topic_ids)
                await until_coordinated(port, life.group)
                try:
                    await life.run(10 + seed % 4 * 10)
                except* ArbitraryChoice:
                    pass
                state = rebuild(shard, read_group_log(port))
                told = await told_by_kafka(Kafka(port), life.group)
                if told[0]["group_state"] not in (PREPARING_REBALANCE.value, COMPLETING_REBALANCE.value):
                    assert read_by_us(state, life.group, service) == told
                    read += 1
                    kinds.add("classic" if state.consumer_group(life.group) is None else "consumer")
            nursery.cancel_scope.cancel()
        return read, kinds

    read, kinds = trio.run(lives)
    assert read >= len(WRITTEN) // 3
    assert kinds == {"classic", "consumer"}
