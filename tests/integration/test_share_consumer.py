"""The share consumer of the client for Python, on our node and on Apache Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest
import trio

from kraft.admin import configs, features, topics
from kraft.clients import (
    Cluster,
    ShareGroupsOff,
    ShareRecord,
    aio,
    connect,
    open_group_consumer,
    open_producer,
    open_share_consumer,
)
from kraft.common.errors import ApiError, KraftError
from kraft.common.features import SHARE_VERSION
from tests.bench.probe import until_acknowledged
from tests.bench.systems import KafkaSystem, KraftSystem

pytestmark = pytest.mark.timeout(180)
GROUP_SETTINGS = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000"}


@pytest.fixture(scope="module", params=["kraft", pytest.param("kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp(request.param)
    system = KafkaSystem(directory) if request.param == "kafka" else KraftSystem(directory)
    system.prepare()
    system.launch()
    try:
        until_acknowledged(system, "cluster-is-up", create=True)
        yield f"127.0.0.1:{system.port}"
    finally:
        system.kill()


def named(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


async def prepare(cluster: Cluster, *, records: int, partitions: int = 2) -> tuple[str, str]:
    """Turn share groups on, and create a group that starts at the first record, and a topic with records 0 to N-1.
    Returns topic and group."""
    if (await cluster.features()).get(SHARE_VERSION, 0) < 1:
        await features.update_features(cluster, {SHARE_VERSION: 1}, features.UPGRADE)
    topic, group = named("jobs"), named("workers")
    await topics.create_topic(cluster, topic, partitions=partitions)
    resource = configs.Resource(configs.GROUP, group)
    await configs.alter_configs(cluster, resource, [(key, 0, value) for key, value in GROUP_SETTINGS.items()])
    async with open_producer(cluster) as producer:
        for number in range(records):
            await producer.send(topic, b"%d" % number, b"%d" % number)
    return topic, group


def values(records: list[ShareRecord]) -> list[int]:
    return sorted(int(each.record.value or b"") for each in records)


async def read(bootstrap: str, topic: str, group: str, seconds: float, count: int = 0) -> list[ShareRecord]:
    """All records that the group delivers to a new member: within half a minute at least `count` of them, and then
    whatever comes in `seconds`."""
    found: list[ShareRecord] = []
    async with connect(bootstrap) as cluster, open_share_consumer(cluster, group, [topic]) as jobs:
        with trio.fail_after(30):
            while len(found) < count:
                found += await jobs.poll()
        with trio.move_on_after(seconds):
            while True:
                found += await jobs.poll()
    return found


def test_records_are_delivered_once_and_accepted_by_the_next_poll_or_the_end_of_the_block(bootstrap: str) -> None:
    async def main() -> None:
        async with connect(bootstrap) as cluster:
            topic, group = await prepare(cluster, records=100)
            found: list[ShareRecord] = []
            async with open_share_consumer(cluster, group, [topic]) as jobs:
                async for each in jobs:
                    found.append(each)
                    if len(found) == 100:
                        break
            assert values(found) == list(range(100))
            assert {each.delivery_count for each in found} == {1}
            assert not jobs.failed
            assert await read(bootstrap, topic, group, 3) == []

    trio.run(main)


def test_released_records_are_delivered_again_and_rejected_ones_are_not(bootstrap: str) -> None:
    async def main() -> None:
        async with connect(bootstrap) as cluster:
            topic, group = await prepare(cluster, records=10)
            attempts: Counter[int] = Counter()
            counts: dict[int, int] = {}
            async with open_share_consumer(cluster, group, [topic], explicit=True) as jobs:
                with trio.fail_after(60):
                    while sum(attempts.values()) < 12:
                        for each in await jobs.poll():
                            number = int(each.record.value or b"")
                            attempts[number] += 1
                            counts[number] = each.delivery_count
                            if number in (3, 4) and attempts[number] == 1:
                                jobs.release(each)
                            elif number == 5:
                                jobs.reject(each)
                            else:
                                jobs.renew(each)
                                assert await jobs.commit() == {}
                                jobs.accept(each)
                        assert await jobs.commit() == {}
                assert jobs.in_flight == 0
            assert attempts == {number: 1 + (number in (3, 4)) for number in range(10)}
            assert (counts[3], counts[4], counts[5]) == (2, 2, 1)
            assert await read(bootstrap, topic, group, 3) == []

    trio.run(main)


def test_a_cancelled_block_releases_its_records_immediately(bootstrap: str) -> None:
    async def main() -> None:
        async with connect(bootstrap) as cluster:
            topic, group = await prepare(cluster, records=20)
            first: list[ShareRecord] = []
            with trio.CancelScope() as scope:
                async with open_share_consumer(cluster, group, [topic]) as jobs:
                    while len(first) < 5:
                        first.append(await anext(jobs))
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
            assert scope.cancelled_caught
            again = await read(bootstrap, topic, group, 1, count=16)
            # The fifth was not processed, and the others were accepted by the request for their successors.
            assert values(again) == [each for each in range(20) if each not in values(first[:4])]

    trio.run(main)


def test_two_members_share_one_partition_within_the_limit_of_records_in_flight(bootstrap: str) -> None:
    async def main() -> None:
        async with connect(bootstrap) as cluster:
            topic, group = await prepare(cluster, records=60, partitions=1)
            done: list[ShareRecord] = []
            members: Counter[int] = Counter()

            both_have_records = trio.Event()

            async def work(member: int) -> None:
                async with (
                    connect(bootstrap) as own,
                    open_share_consumer(own, group, [topic], explicit=True, max_records=5, record_limit=True) as jobs,
                ):
                    while len(done) < 60:
                        for each in await jobs.poll(0.3):
                            assert jobs.in_flight <= 5
                            members[member] += 1
                            if len(members) == 2:
                                both_have_records.set()
                            await both_have_records.wait()
                            jobs.accept(each)
                            done.append(each)
                    assert await jobs.commit() == {}

            with trio.fail_after(60):
                async with trio.open_nursery() as members_nursery:
                    members_nursery.start_soon(work, 1)
                    members_nursery.start_soon(work, 2)
            assert values(done) == list(range(60))
            assert len(members) == 2

    trio.run(main)


def test_from_asyncio_records_that_the_application_has_not_seen_are_released(bootstrap: str) -> None:
    async def use(topic: str, group: str) -> None:
        seen: list[ShareRecord] = []
        async with aio.connect(bootstrap) as cluster:
            async with cluster.share_consumer(group, [topic]) as jobs:
                async for each in jobs:
                    seen.append(each)
                    if len(seen) == 3:
                        break
                assert await jobs.commit() == {}
                seen += [await anext(jobs) for _ in range(2)]
            assert not jobs.failed
            async with cluster.share_consumer(group, [topic], explicit=True) as jobs:
                while len(seen) < 20:
                    with contextlib.suppress(TimeoutError):
                        found = await asyncio.wait_for(jobs.poll(), 0.05)
                        seen += found
                        await jobs.renew(*found[:1])
                        await jobs.accept(*found)
                assert await jobs.commit() == {}
                with pytest.raises(KraftError, match="is acknowledged already"):
                    await jobs.accept(seen[-1])
        assert values(seen) == list(range(20))

    async def prepare_only() -> tuple[str, str]:
        async with connect(bootstrap) as cluster:
            return await prepare(cluster, records=20)

    topic, group = trio.run(prepare_only)
    asyncio.run(asyncio.wait_for(use(topic, group), 60))
    assert trio.run(read, bootstrap, topic, group, 3) == []


def test_a_group_of_another_type_is_reported_by_the_first_poll(bootstrap: str) -> None:
    async def main() -> None:
        async with connect(bootstrap) as cluster:
            topic, _ = await prepare(cluster, records=1)
            group = named("classic")
            async with open_group_consumer(cluster, group, [topic], protocol="consumer") as consumer:
                await consumer.poll(1)
                with pytest.raises(ApiError, match=f"share group {group}: .*share group"):
                    async with open_share_consumer(cluster, group, [topic]) as jobs:
                        await jobs.poll(10)

    trio.run(main)


def test_kraft_consume_accepts_what_it_has_printed_and_releases_the_rest(bootstrap: str) -> None:
    async def main() -> None:
        async with connect(bootstrap) as cluster:
            topic, group = await prepare(cluster, records=10, partitions=1)
            command = [sys.executable, "-m", "kraft.cli.admin.app", "consume", topic, "--share-group", group, "-c", "4"]
            result = await trio.run_process([*command, "-b", bootstrap], capture_stdout=True, capture_stderr=True)
            # stderr may name a coordinator that it waited for.
            assert result.stdout.split() == [b"0", b"1", b"2", b"3"]
            assert b"acknowledgement" not in result.stderr
            assert values(await read(bootstrap, topic, group, 1, count=6)) == [4, 5, 6, 7, 8, 9]

    trio.run(main)


def test_a_cluster_with_share_groups_turned_off_says_how_to_turn_them_on(bootstrap: str) -> None:
    async def main() -> None:
        async with connect(bootstrap) as cluster:
            topic, group = await prepare(cluster, records=1)
            await features.update_features(cluster, {SHARE_VERSION: 0}, features.SAFE_DOWNGRADE)
            with pytest.raises(ShareGroupsOff, match=r"kraft features upgrade share\.version=1"):
                async with open_share_consumer(cluster, group, [topic]) as jobs:
                    while True:
                        await jobs.poll(1)

    trio.run(main)
