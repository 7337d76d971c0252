"""The share consumer against a production node in the simulated world, and against scripted brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kraft.admin import configs, features, topics
from kraft.common.errors import KraftError
from kraft.common.features import SHARE_VERSION
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kraft.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kraft.protocol.messages.share_acknowledge_response import PartitionData as AcknowledgedPartition
from kraft.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse, ShareAcknowledgeTopicResponse
from kraft.protocol.messages.share_fetch_request import ShareFetchRequest
from kraft.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from kraft.protocol.records.builder import build_batch
from kraft.protocol.records.record import Record
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.errors import DeadlinePassed
from kraft.rpc_client.producer import open_producer
from kraft.rpc_client.share_consumer import ShareConsumer, open_share_consumer
from kraft.rpc_client.share_membership import ShareGroupsOff
from kraft.rpc_client.share_record import ShareRecord
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster
from tests.unit.rpc_client.simulated_node import NODE, play

GROUP = "workers"


async def prepare(cluster: Cluster, records: int, **settings: str) -> None:
    """Turn share groups on, and create the topic "jobs" with records 0 to N-1, which the group reads from its start."""
    if (await cluster.features()).get(SHARE_VERSION, 0) < 1:
        await features.update_features(cluster, {SHARE_VERSION: 1}, features.UPGRADE)
    await topics.create_topic(cluster, "jobs", partitions=2)
    values = {"share.auto.offset.reset": "earliest", **{key.replace("_", "."): each for key, each in settings.items()}}
    resource = configs.Resource(configs.GROUP, GROUP)
    await configs.alter_configs(cluster, resource, [(key, 0, value) for key, value in values.items()])
    await send(cluster, range(records))


async def send(cluster: Cluster, numbers: range) -> None:
    async with open_producer(cluster) as producer:
        for number in numbers:
            await producer.send("jobs", b"%d" % number, b"%d" % number)


async def polled(jobs: ShareConsumer, count: int) -> list[ShareRecord]:
    """Poll until there are so many records."""
    found: list[ShareRecord] = []
    while len(found) < count:
        found += await jobs.poll(1.0)
    return found


def numbers(records: list[ShareRecord]) -> list[int]:
    return sorted(int(each.record.value or b"") for each in records)


@asynccontextmanager
async def explicit(cluster: Cluster, **options: Any) -> AsyncIterator[ShareConsumer]:
    async with open_share_consumer(cluster, GROUP, ["jobs"], explicit=True, **options) as jobs:
        yield jobs


def test_a_node_without_share_groups_is_reported_with_the_command_that_turns_them_on() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 0)
        await features.update_features(cluster, {SHARE_VERSION: 0}, features.SAFE_DOWNGRADE)
        with pytest.raises(ShareGroupsOff, match=r"kraft features upgrade share\.version=1"):
            async with explicit(cluster) as jobs:
                await jobs.poll(60)

    play(body)


def test_acknowledgements_before_a_broken_connection_are_reported_and_their_records_are_delivered_again() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 10)
        async with explicit(cluster) as jobs:
            first = await polled(jobs, 10)
            for each in first[:4]:
                jobs.accept(each)
            universe.kill(NODE)
            failed = await jobs.commit()
            assert sum(each.acknowledgements for each in failed.values()) == 4
            assert {each.partition for each in failed.values()} <= {TopicPartition("jobs", index) for index in (0, 1)}
            jobs.accept(first[4])
            again = await polled(jobs, 10)
            assert numbers(again) == list(range(10))
            for each in again:
                jobs.accept(each)
            # The lock of the fifth was lost with its session.
            assert sum(each.acknowledgements for each in (await jobs.commit()).values()) == 1
            assert await jobs.commit() == {}
            assert await jobs.poll(2) == []

    play(body)


def test_a_cancelled_poll_loses_no_records() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 0)
        chance = universe.stream("cancelled polls")
        found: list[ShareRecord] = []
        async with explicit(cluster) as jobs, trio.open_nursery() as sending_nursery:
            sending_nursery.start_soon(send, cluster, range(200))
            while len(found) < 200:
                with universe.world_for("client").clock.move_on_after(chance.uniform(0.0, 0.05)):
                    for each in await jobs.poll(1.0):
                        jobs.accept(each)
                        found.append(each)
            assert await jobs.commit() == {}
        assert numbers(found) == list(range(200))
        assert {each.delivery_count for each in found} == {1}

    play(body)


def test_a_failed_block_accepts_nothing_of_the_last_poll_and_releases_it_immediately() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 6)
        with pytest.raises(ZeroDivisionError):
            async with open_share_consumer(cluster, GROUP, ["jobs"]) as jobs:
                await polled(jobs, 6)
                raise ZeroDivisionError
        start = universe.world_for("client").clock.now()
        async with open_share_consumer(cluster, GROUP, ["jobs"]) as jobs:
            assert numbers(await polled(jobs, 6)) == list(range(6))
        assert universe.world_for("client").clock.now() - start < 10
        async with open_share_consumer(cluster, GROUP, ["jobs"]) as jobs:
            assert await jobs.poll(3) == []

    play(body)


def test_an_acknowledgement_makes_room_for_a_poll_that_waits() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 9)
        waiting: list[ShareRecord] = []
        seen: list[ShareRecord] = []
        async with explicit(cluster, max_records=3, record_limit=True) as jobs, trio.open_nursery() as working_nursery:

            async def work() -> None:
                while len(seen) < 9:
                    await universe.sleep(0.5)
                    if waiting:
                        jobs.accept(waiting.pop(0))

            working_nursery.start_soon(work)
            while len(seen) < 9:
                found = await jobs.poll(30)
                assert jobs.in_flight <= 3
                seen += found
                waiting += found
            while waiting:
                jobs.accept(waiting.pop())
            assert await jobs.commit() == {}
        assert numbers(seen) == list(range(9))

    play(body)


def test_a_renewed_lock_outlives_its_duration_and_others_are_delivered_again() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 4, share_record_lock_duration_ms="15000")
        async with explicit(cluster) as jobs:
            first = await polled(jobs, 4)
            for _ in range(3):
                await universe.sleep(10)
                jobs.renew(first[0])
                assert await jobs.commit() == {}
            jobs.accept(first[0])
            jobs.accept(first[1])
            [failure] = (await jobs.commit()).values()
            assert "the acquisition lock of offset" in str(failure)
            again = await polled(jobs, 3)
            assert numbers(again) == numbers(first[1:])

    play(body)


def test_an_acknowledgement_is_sent_without_another_poll_before_its_lock_ends() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 3)
        async with explicit(cluster) as jobs:
            for each in await polled(jobs, 3):
                await universe.sleep(9)
                jobs.accept(each)
            await universe.sleep(40)
            assert await jobs.commit() == {}
            assert await jobs.poll(2) == []

    play(body)


def test_only_an_explicit_consumer_acknowledges_records() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 1)
        async with open_share_consumer(cluster, GROUP, ["jobs"]) as jobs:
            [record] = await polled(jobs, 1)
            with pytest.raises(KraftError, match="explicit=True"):
                jobs.accept(record)
        arguments: dict[str, Any] = {"group_id": GROUP, "topics": ["jobs"]}
        wrong: list[dict[str, Any]] = [{"group_id": ""}, {"topics": []}, {"max_records": 0}]
        for options in wrong:
            with pytest.raises(ValueError, match="needs a group id, at least one topic"):
                async with open_share_consumer(cluster, **{**arguments, **options}):
                    pass

    play(body)


def test_a_member_that_does_not_poll_leaves_and_joins_again_with_its_next_poll() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 3)
        async with explicit(cluster, max_poll_seconds=5.0) as jobs:
            for each in await polled(jobs, 3):
                jobs.accept(each)
            await universe.sleep(30)
            assert not jobs.membership.assigned
            await send(cluster, range(3, 5))
            assert numbers(await polled(jobs, 2)) == [3, 4]
            assert not jobs.failed

    play(body)


class ScriptedShareBrokers:
    """Brokers 1 and 2 with one partition of "jobs", of which `cluster.leaders` names the leader. Each ShareFetch at the
    leader acquires the next record. `fates` are errors that the next requests raise."""

    def __init__(self, universe: Universe) -> None:
        self.cluster = ScriptedCluster(universe, {"jobs": [1]}, self.answer)
        self.leader = 1
        self.beats: list[int] = []
        self.beat_codes: list[int] = []
        self.accepted: Counter[int] = Counter()
        self.requests: list[tuple[int | None, Any]] = []
        self.next_offset = 0
        self.is_silent = False

    async def answer(self, request: Any, node_id: int | None) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(coordinators=[Coordinator(key=GROUP, node_id=1)])
        if isinstance(request, ShareGroupHeartbeatRequest):
            return self._beat(request)
        self.requests.append((node_id, request))
        if self.is_silent:
            await trio.sleep_forever()
        await self.cluster.world.clock.sleep(0.1)
        code = ErrorCode.NONE if node_id == self.leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not code:
            for topic in request.topics:
                for partition in topic.partitions:
                    for each in partition.acknowledgement_batches:
                        self.accepted.update(range(each.first_offset, each.last_offset + 1))
        if isinstance(request, ShareAcknowledgeRequest):
            part = AcknowledgedPartition(partition_index=0, error_code=code)
            topic_id = self.cluster.topic_id("jobs")
            return ShareAcknowledgeResponse(
                acquisition_lock_timeout_ms=30_000,
                responses=[ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=[part])],
            )
        assert isinstance(request, ShareFetchRequest)
        return self._fetched(code)

    def _beat(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        self.beats.append(request.member_epoch)
        if self.beat_codes:
            return ShareGroupHeartbeatResponse(error_code=self.beat_codes.pop(0))
        assignment = Assignment(
            topic_partitions=[TopicPartitions(topic_id=self.cluster.topic_id("jobs"), partitions=[0])]
        )
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=request.member_epoch + 1 if request.member_epoch >= 0 else request.member_epoch,
            heartbeat_interval_ms=1000,
            assignment=assignment,
        )

    def _fetched(self, code: int) -> ShareFetchResponse:
        data = PartitionData(partition_index=0, error_code=code, acknowledge_error_code=code, records=b"")
        if not code:
            offset, self.next_offset = self.next_offset, self.next_offset + 1
            data.records = build_batch([Record(offset, 0, None, b"%d" % offset)])
            data.acquired_records = [AcquiredRecords(first_offset=offset, last_offset=offset, delivery_count=1)]
        topic = ShareFetchableTopicResponse(topic_id=self.cluster.topic_id("jobs"), partitions=[data])
        return ShareFetchResponse(acquisition_lock_timeout_ms=30_000, responses=[topic])


def test_a_moved_partition_is_fetched_from_its_new_leader_and_acknowledgements_at_the_old_one_are_reported() -> None:
    async def main(universe: Universe) -> None:
        brokers = ScriptedShareBrokers(universe)
        async with explicit(brokers.cluster) as jobs:
            [first] = await polled(jobs, 1)
            brokers.cluster.leaders["jobs"], brokers.leader = [2], 2
            jobs.accept(first)
            [failure] = (await jobs.commit()).values()
            assert (failure.partition, failure.first_offset) == (TopicPartition("jobs", 0), 0)
            assert "NOT_LEADER_OR_FOLLOWER" in str(failure)
            [second] = await polled(jobs, 1)
            jobs.accept(second)
            assert await jobs.commit() == {}
        assert brokers.accepted == {1: 1}

    Universe(1).run(main)


def test_a_fenced_member_joins_again_and_keeps_its_records() -> None:
    async def main(universe: Universe) -> None:
        brokers = ScriptedShareBrokers(universe)
        async with explicit(brokers.cluster) as jobs:
            [first] = await polled(jobs, 1)
            beats = len(brokers.beats)
            brokers.beat_codes = [ErrorCode.FENCED_MEMBER_EPOCH]
            await universe.sleep(3)
            assert brokers.beats[beats + 1] == 0
            jobs.accept(first)
            assert await jobs.commit() == {}

    Universe(1).run(main)


def test_a_silent_broker_delays_the_end_of_the_block_by_seconds_and_what_it_did_not_answer_is_reported() -> None:
    async def main(universe: Universe) -> None:
        brokers = ScriptedShareBrokers(universe)
        clock = universe.world_for("client").clock
        async with explicit(brokers.cluster) as jobs:
            [first] = await polled(jobs, 1)
            jobs.accept(first)
            brokers.is_silent = True
            with pytest.raises(DeadlinePassed, match="were not answered within 2 s"):
                await jobs.commit(2)
            start = clock.now()
        assert clock.now() - start <= 6
        [failure] = jobs.failed.values()
        assert "did not answer before the consumer was closed" in str(failure)

    Universe(1).run(main)


def test_a_session_that_breaks_between_two_polls_begins_again_at_epoch_zero() -> None:
    async def main(universe: Universe) -> None:
        brokers = ScriptedShareBrokers(universe)
        breaks = [True]
        answer = brokers.cluster.answer

        async def breaking(request: Any, node_id: int | None) -> Any:
            if isinstance(request, ShareFetchRequest) and request.share_session_epoch == 1 and breaks.pop():
                breaks.append(False)
                raise Disconnected("the connection is closed")
            return await answer(request, node_id)

        brokers.cluster.answer = breaking
        async with explicit(brokers.cluster) as jobs:
            [first] = await polled(jobs, 1)
            jobs.accept(first)
            await polled(jobs, 1)
            [failure] = (await jobs.commit()).values()
            assert "the connection is closed" in str(failure)
        epochs = [each.share_session_epoch for _, each in brokers.requests if isinstance(each, ShareFetchRequest)]
        assert epochs[:2] == [0, 0]

    Universe(1).run(main)


def test_with_offsets_only_records_that_arrive_after_a_poll_are_returned_without_data_and_can_be_accepted() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await prepare(cluster, 10)
        async with explicit(cluster, offsets_only=True) as jobs:
            found: list[ShareRecord] = []
            while len(found) < 10:
                with trio.move_on_after(0):
                    await jobs.poll(1.0)  # Cancelled before its request is answered.
                await cluster.world.clock.sleep(1.0)
                found += jobs.arrived()
            assert {each.record.value for each in found} == {None}
            assert jobs.arrived() == []
            for each in found:
                jobs.accept(each)
            assert await jobs.commit() == {}
            assert await jobs.poll(2) == []

    play(body)
