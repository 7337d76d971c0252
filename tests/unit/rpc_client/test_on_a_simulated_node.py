"""The client against a production node in the simulated world: also where the node dies, is cut off, or forgets."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.admin import groups, topics
from kraft.admin.cluster import describe_cluster
from kraft.admin.delete_records import delete_records
from kraft.admin.offsets import EARLIEST, LATEST, offsets_at
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.records.compression import CODEC_NAMES
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.consumer import ConsumedRecord, Consumer, start_positions
from kraft.rpc_client.errors import DeadlinePassed, NoBroker
from kraft.rpc_client.group_consumer import GroupConsumer, open_group_consumer
from kraft.rpc_client.producer import open_producer
from kraft.world.simulated import Universe
from tests.unit.rpc_client.simulated_node import NODE, cluster_for, play


async def read_all(cluster: Cluster, name: str) -> list[ConsumedRecord]:
    [topic] = await topics.describe_topics(cluster, [name])
    ends = await offsets_at(cluster, topic.topic_partitions(), LATEST)
    consumer = Consumer(cluster)
    consumer.assign(await start_positions(cluster, topic.topic_partitions(), EARLIEST))
    found: list[ConsumedRecord] = []
    while any(consumer.positions[partition] < end for partition, end in ends.items()):
        found += await consumer.poll(1.0)
    return found


@pytest.mark.parametrize("codec", range(len(CODEC_NAMES)), ids=CODEC_NAMES)
def test_produced_records_are_read_back_in_partition_order(codec: int) -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=3)
        sent: dict[int, list[tuple[bytes | None, bytes | None]]] = {0: [], 1: [], 2: []}
        async with open_producer(cluster, codec=codec) as producer:
            for number in range(300):
                key = None if number % 7 == 0 else b"key-%d" % (number % 11)
                value = None if number % 13 == 0 else b"value-%d" % number
                delivery = await producer.send("t", value, key, headers=(("h", None), ("n", b"%d" % number)))
                sent[delivery.partition.partition].append((key, value))
        found = await read_all(cluster, "t")
        for index, records in sent.items():
            own = [each.record for each in found if each.partition.partition == index]
            assert [(record.key, record.value) for record in own] == records
            assert [record.offset for record in own] == list(range(len(own)))
        assert {each.record.headers[0] for each in found} == {("h", None)}

    play(body)


def test_a_cancelled_send_queues_nothing() -> None:
    """So whoever counts what `send` returned counts every record that is stored."""

    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=1)
        async with open_producer(cluster) as producer:
            await producer.send("t", b"v")  # From now on the topic is known.
            await producer.flush()
            returned = 1
            for _ in range(20):
                async with trio.open_nursery() as nursery:

                    async def send_two(scope: trio.CancelScope) -> None:
                        nonlocal returned
                        for _ in range(2):
                            await producer.send("t", b"v")
                            returned += 1
                        await trio.sleep_forever()

                    nursery.start_soon(send_two, nursery.cancel_scope)
                    await trio.lowlevel.checkpoint()  # In the midst of its first record, which begins a batch.
                    nursery.cancel_scope.cancel()
                await producer.flush()
        assert 21 <= returned < 41
        assert len(await read_all(cluster, "t")) == returned

    play(body)


@pytest.mark.parametrize("seed", [*range(1, 6), 77])  # 77: a record joined a batch that waited to be sent again.
def test_an_idempotent_producer_stores_every_record_once_when_the_node_is_killed(seed: int) -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=2)

        async def fate() -> None:
            for _ in range(4):
                await universe.sleep(universe.stream("kills").uniform(0.05, 3.0))
                universe.kill(NODE)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fate)
            deliveries = []
            # Some records a batch, so that batches queue up.
            async with open_producer(cluster, batch_bytes=150) as producer:
                for number in range(200):
                    deliveries.append(await producer.send("t", b"%d" % number, partition=number % 2))
                    await universe.sleep(0.03)
        offsets = {(each.partition.partition, (await each.wait()).offset) for each in deliveries}
        found = await read_all(cluster, "t")
        assert [int(each.record.value or b"") for each in found if each.partition.partition == 0] == list(
            range(0, 200, 2)
        )
        assert [int(each.record.value or b"") for each in found if each.partition.partition == 1] == list(
            range(1, 200, 2)
        )
        assert offsets == {(each.partition.partition, each.record.offset) for each in found}

    play(body, seed)


def test_a_batch_resent_after_a_lost_response_is_stored_once() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=1)
        async with open_producer(cluster, batch_bytes=60) as producer:  # A record a batch.
            await (await producer.send("t", b"0")).wait()
            universe.cut(NODE, "client", both_ways=False)
            deliveries = []
            for number in range(1, 6):
                deliveries.append(await producer.send("t", b"%d" % number))
                await universe.sleep(1.0)  # The first of them is stored by now, the others wait behind it.
            universe.forget_connections("client")
            universe.heal()
            assert [(await delivery.wait()).offset for delivery in deliveries] == [1, 2, 3, 4, 5]
        assert [each.record.value for each in await read_all(cluster, "t")] == [b"%d" % number for number in range(6)]

    play(body)


def test_a_consumer_that_waits_at_the_log_end_does_not_delay_a_producer_of_the_same_client() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=1)
        consumer = Consumer(cluster)
        consumer.assign({TopicPartition("t", 0): 0})
        assert await consumer.poll(0.2) == []
        async with open_producer(cluster) as producer:
            await (await producer.send("t", b"first")).wait()
            began = cluster.world.clock.now()
            for number in range(20):
                await producer.send("t", b"%d" % number)
                while not any(each.record.value == b"%d" % number for each in await consumer.poll(5.0)):
                    pass
            assert cluster.world.clock.now() - began < 2, "a fetch waits for half a second where nothing comes"
        consumer.assign({})
        assert await read_all(cluster, "t"), "other connections are as they were"

    play(body)


def test_a_member_commits_before_a_rebalance_revokes_its_partitions() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=2)
        async with open_producer(cluster) as producer:
            for number in range(20):
                await producer.send("t", b"%d" % number, partition=number % 2)
        first_read: set[bytes] = set()
        second_read: set[bytes] = set()
        async with cluster_for(universe, "one") as one, open_group_consumer(one, "g", ["t"], reset=EARLIEST) as first:
            await read_until(first, first_read, 20, 2)
            async with (
                cluster_for(universe, "two") as two,
                open_group_consumer(two, "g", ["t"], reset=EARLIEST) as second,
            ):
                async with trio.open_nursery() as both:
                    both.start_soon(read_until, first, first_read, 20, 1)
                    both.start_soon(read_until, second, second_read, 0, 1)
                for each in await second.poll(1.0):
                    second_read.add(each.record.value or b"")
        assert second_read == set(), "what the first had read is not read again"

    play(body)


def test_a_record_that_is_too_large_fails_and_later_records_are_sent() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=1, configs={"max.message.bytes": "1000"})
        async with open_producer(cluster) as producer:
            large = await producer.send("t", b"x" * 5000)
            await producer.flush()
            small = await producer.send("t", b"y")
            with pytest.raises(ApiError) as refusal:
                await large.wait()
            assert refusal.value.code == ErrorCode.MESSAGE_TOO_LARGE
            assert (await small.wait()).offset == 0

    play(body)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"value": "text"}, TypeError),
        ({"value": b"x", "key": "text"}, TypeError),
        ({"value": b"x", "headers": (("name", "text"),)}, TypeError),
        ({"value": b"x", "headers": (("\ud800", b"x"),)}, ValueError),
        ({"value": b"x", "timestamp": 1 << 63}, KraftError),
        ({"value": b"x", "timestamp": 1.5}, KraftError),
    ],
)
def test_an_invalid_record_is_refused_immediately_without_affecting_others(wrong: Any, error: type[Exception]) -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t")
        async with open_producer(cluster) as producer:
            before = await producer.send("t", b"before")
            with pytest.raises(error):
                await (await producer.send("t", **wrong)).wait()
            after = await producer.send("t", bytearray(b"after"))
            assert [(await each.wait()).offset for each in (before, after)] == [0, 1]

    play(body)


def test_of_many_values_none_is_sent_when_one_is_not_bytes() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t")
        async with open_producer(cluster) as producer:
            with pytest.raises(TypeError):
                await producer.send_values("t", [b"x", "text"])  # type: ignore[list-item]
            (sent,) = await producer.send_values("t", [b"x", memoryview(b"y")])  # type: ignore[list-item]
            assert ((await sent.wait()).offset, sent.last_offset) == (0, 1)

    play(body)


def test_with_acks_0_no_response_is_waited_for() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=1)
        async with open_producer(cluster, acks=0, idempotent=False) as producer:
            delivery = await (await producer.send("t", b"x")).wait()
        assert delivery.offset == -1
        assert [each.record.value for each in await read_all(cluster, "t")] == [b"x"]

    play(body)


def test_a_producer_times_out_when_no_node_responds() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=1)
        async with open_producer(cluster, delivery_seconds=10.0) as producer:
            await (await producer.send("t", b"x")).wait()
            universe.cut(NODE, "client")
            began = cluster.world.clock.now()
            with pytest.raises(DeadlinePassed, match="within 10 s"):
                await (await producer.send("t", b"y")).wait()
            assert 10 <= cluster.world.clock.now() - began < 25
            universe.heal()
            assert (await (await producer.send("t", b"z")).wait()).offset >= 1

    play(body)


def test_a_call_waits_for_a_node_that_is_not_up_yet_until_its_deadline() -> None:
    async def main(universe: Universe) -> None:
        async with cluster_for(universe, seconds=10.0) as cluster:
            with pytest.raises(DeadlinePassed, match="within 10 s") as late:
                await describe_cluster(cluster)
            assert isinstance(late.value.__cause__, NoBroker)

    Universe(1).run(main, seconds_max=1000.0)

    async def body(universe: Universe, cluster: Cluster) -> None:
        assert [broker.node_id for broker in (await describe_cluster(cluster)).brokers] == [NODE]
        universe.kill(NODE)
        assert [broker.node_id for broker in (await describe_cluster(cluster)).brokers] == [NODE]

    play(body)


def test_a_position_outside_the_log_is_reset_or_refused() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=1)
        partition = TopicPartition("t", 0)
        async with open_producer(cluster) as producer:
            for number in range(10):
                await producer.send("t", b"%d" % number)
        assert (await delete_records(cluster, {partition: 4})).begins == {partition: 4}
        consumer = Consumer(cluster, reset=EARLIEST)
        consumer.assign({partition: 1})
        found: list[ConsumedRecord] = []
        while len(found) < 6:
            found += await consumer.poll(1.0)
        assert [each.record.offset for each in found] == [4, 5, 6, 7, 8, 9]
        assert consumer.ends == {partition: 10}
        strict = Consumer(cluster)
        strict.assign({partition: 1})
        with pytest.raises(ApiError, match="offset 1 is not in the log"):
            await strict.poll(1.0)

    play(body)


def test_a_topic_recreated_under_its_old_name_is_found() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=1)
        async with open_producer(cluster) as producer, cluster_for(universe, "admin") as other:
            await (await producer.send("t", b"old")).wait()
            await topics.delete_topic(other, "t")
            await topics.create_topic(other, "t", partitions=1)
            assert (await (await producer.send("t", b"new")).wait()).offset == 0
        assert [each.record.value for each in await read_all(cluster, "t")] == [b"new"]

    play(body)


def test_a_missing_topic_or_partition_is_reported_immediately() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        began = cluster.world.clock.now()
        with pytest.raises(ApiError, match="topic nowhere") as refusal:
            await topics.describe_topics(cluster, ["nowhere"])
        assert refusal.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(ApiError) as unknown:
            await groups.describe_group(cluster, "nobody")
        assert unknown.value.code == ErrorCode.GROUP_ID_NOT_FOUND
        assert cluster.world.clock.now() - began < 5

    play(body)


async def read_until(consumer: GroupConsumer, values: set[bytes], wanted: int, partitions: int) -> None:
    """Read until `values` has `wanted` and this member holds `partitions`."""
    while len(values) < wanted or len(consumer.consumer.positions) != partitions:
        for each in await consumer.poll(0.5):
            values.add(each.record.value or b"")


def test_members_share_partitions_and_take_over_those_of_a_leaving_member() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=4)

        async def produce(first: int) -> None:
            async with open_producer(cluster) as producer:
                for number in range(first, first + 40):
                    await producer.send("t", b"%d" % number, partition=number % 4)

        await produce(0)
        values: set[bytes] = set()
        async with cluster_for(universe, "one") as one, open_group_consumer(one, "g", ["t"], reset=EARLIEST) as first:
            await read_until(first, values, 40, 4)
            async with (
                cluster_for(universe, "two") as two,
                open_group_consumer(two, "g", ["t"], reset=EARLIEST) as second,
            ):
                async with trio.open_nursery() as both:
                    both.start_soon(read_until, first, values, 40, 2)
                    both.start_soon(read_until, second, values, 40, 2)
                described = await groups.describe_group(cluster, "g")
                assert (described.state, described.assignor) == ("Stable", "range")
                assert [
                    member.assignment for member in sorted(described.members, key=lambda member: member.assignment)
                ] == [
                    (TopicPartition("t", 0), TopicPartition("t", 1)),
                    (TopicPartition("t", 2), TopicPartition("t", 3)),
                ]
            await produce(40)
            await read_until(first, values, 80, 4)
        assert values == {b"%d" % number for number in range(80)}
        committed = await groups.committed_offsets(cluster, "g")
        assert {partition.partition: each.offset for partition, each in committed.items()} == {
            0: 20,
            1: 20,
            2: 20,
            3: 20,
        }
        assert (await groups.describe_group(cluster, "g")).state == "Empty"

    play(body)


def test_a_member_that_waits_in_a_join_blocks_no_other_request_to_that_node() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=2)
        async with cluster_for(universe, "one") as one, open_group_consumer(one, "g", ["t"]) as first:
            await read_until(first, set(), 0, 2)
            async with (
                cluster_for(universe, "two") as two,
                open_group_consumer(two, "g", ["t"]) as second,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(second.poll, 1.0)
                await universe.sleep(2.0)
                with two.world.clock.move_on_after(2.0) as waiting:
                    assert (await groups.describe_group(two, "g")).state == "PreparingRebalance"
                assert not waiting.cancelled_caught
                await read_until(first, set(), 0, 1)

    play(body)


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_member_continues_after_the_node_was_killed(seed: int) -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=2)
        values: set[bytes] = set()
        async with open_group_consumer(cluster, "g", ["t"], reset=EARLIEST) as member:
            async with open_producer(cluster) as producer:
                for number in range(20):
                    await producer.send("t", b"%d" % number, partition=number % 2)
            await read_until(member, values, 20, 2)
            assert await member.commit()
            universe.kill(NODE)
            async with open_producer(cluster) as producer:
                for number in range(20, 40):
                    await producer.send("t", b"%d" % number, partition=number % 2)
            await read_until(member, values, 40, 2)
        committed = await groups.committed_offsets(cluster, "g")
        assert sorted(each.offset for each in committed.values()) == [20, 20]

    play(body, seed)


def test_offsets_can_be_committed_externally_only_while_the_group_is_empty() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await topics.create_topic(cluster, "t", partitions=1)
        partition = TopicPartition("t", 0)
        await groups.commit_offsets(cluster, "g", {partition: 0})
        assert [group.group_id for group in await groups.list_groups(cluster)] == ["g"]
        async with cluster_for(universe, "one") as one, open_group_consumer(one, "g", ["t"]) as member:
            await read_until(member, set(), 0, 1)
            with pytest.raises(ApiError) as refusal:
                await groups.commit_offsets(cluster, "g", {partition: 0})
            assert refusal.value.code == ErrorCode.UNKNOWN_MEMBER_ID
            with pytest.raises(ApiError) as not_empty:
                await groups.delete_group(cluster, "g")
            assert not_empty.value.code == ErrorCode.NON_EMPTY_GROUP
        await groups.delete_offsets(cluster, "g", [partition])
        assert await groups.committed_offsets(cluster, "g") == {}

    play(body)
