"""Replication throttles: who is named and not in sync gets no more than the rate; everybody else is left alone."""

from __future__ import annotations

from typing import Any

from kraft.metadata.records.config_record import ConfigRecord
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.replication.replication_quota import UNLIMITED, ReplicationQuota
from kraft.world.simulated import Universe
from tests.unit.handlers.fetch.follower_fetches import Follower as ServedFollower
from tests.unit.replication.followers import Follower, record
from tests.unit.server.brokers import NODE, Broker, batch, broker, simulate

TOPIC, BROKER = 2, 4


def configure(made: Broker, rate_key: str, rate: int, list_key: str, replicas: str) -> None:
    made.publish(
        ConfigRecord(resource_type=BROKER, resource_name=str(NODE), name=rate_key, value=str(rate)),
        ConfigRecord(resource_type=TOPIC, resource_name="t", name=list_key, value=replicas),
    )


def throttle_leader(made: Broker, rate: int, replicas: str) -> None:
    configure(made, "leader.replication.throttled.rate", rate, "leader.replication.throttled.replicas", replicas)


def throttle_follower(made: Broker, rate: int, replicas: str) -> None:
    configure(made, "follower.replication.throttled.rate", rate, "follower.replication.throttled.replicas", replicas)


def test_the_quota_refills_at_its_rate_up_to_one_second() -> None:
    time = [0.0]
    rate = [100]
    quota = ReplicationQuota(lambda: rate[0], lambda: time[0])
    assert quota.seconds_to_wait() > 0
    time[0] = 50.0
    assert quota.seconds_to_wait() == 0
    quota.took(250)
    assert 1.5 <= quota.seconds_to_wait() <= 1.6
    time[0] = 51.6
    assert quota.seconds_to_wait() == 0
    quota.took(10_000)
    rate[0] = UNLIMITED
    assert quota.seconds_to_wait() == 0


def write(it: ServedFollower, index: int, count: int) -> None:
    now = it.made.world.clock.wall_ms()
    for _ in range(count):
        it.made.partition("t", index).append(memoryview(batch(b"v" * 500, timestamp_ms=now)), 1, now, 0)


def test_a_leader_throttles_only_listed_replicas_that_are_out_of_sync() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            it = ServedFollower(made)
            throttle_leader(made, 1000, f"0:{NODE},1:{NODE}")
            made.change(it.topic_id, 0, isr=[NODE])
            made.change(it.topic_id, 2, isr=[NODE])
            for index in range(3):
                write(it, index, 4)
            await universe.sleep(1.0)
            first = await it.fetch(dict.fromkeys(range(3), 0))
            assert [bool(first[index].records) for index in range(3)] == [True, True, True], (
                "1 is in sync, 2 is not named"
            )
            again = await it.fetch({0: 1})
            assert 0 not in again or not again[0].records
            await universe.sleep(10.0)
            assert (await it.fetch({0: 1}))[0].records, "the rate allows it again"
            throttle_leader(made, UNLIMITED, "")
            assert (await it.fetch({0: 2}))[0].records

    simulate(play)


def test_a_throttled_follower_does_not_fetch_beyond_its_quota() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            it = Follower(made)
            it.follow()
            made.change(it.topic_id, isr=[2, 3])
            throttle_follower(made, 100, "*")
            await universe.sleep(2.0)
            assert _asked(await it.fetch(high_watermark=0, log_start_offset=0, records=record(0, 1))) == [0]
            for offset in range(1, 4):
                made.replicas.serving.follower_took(it.partition, 100)
                assert await it.fetcher._ask() == {}
                assert it.fetcher.put_aside() == 1
                await universe.sleep(5.0)
                assert _asked(await it.fetch(high_watermark=0, log_start_offset=0, records=record(offset, 1))) == [
                    offset
                ]
            made.replicas.serving.follower_took(it.partition, 10_000)
            made.change(it.topic_id, isr=[NODE, 2, 3])
            it.fetcher._due[it.partition.topic_id, 0] = None
            assert len(await it.fetcher._ask()) == 1, "who is in sync is not held back"

    simulate(play)


def _asked(request: Any) -> list[int]:
    return [partition.fetch_offset for topic in request.topics for partition in topic.partitions]


def test_a_throttled_partition_leaves_the_fetch_session() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            it = Follower(made)
            it.follow()
            made.change(it.topic_id, isr=[2, 3])
            await it.fetch(high_watermark=0, log_start_offset=0, records=record(0, 1))
            throttle_follower(made, 100, f"0:{NODE}")
            made.replicas.serving.follower_took(it.partition, 1000)
            it.leader.answers.append(
                FetchResponse(
                    session_id=9, responses=[FetchableTopicResponse(topic_id=it.topic_id, partitions=[PartitionData()])]
                )
            )
            await it.fetcher._fetch(it.leader)  # type: ignore[arg-type]
            request = it.leader.asked[-1]
            assert request.topics == []
            assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]

    simulate(play)
