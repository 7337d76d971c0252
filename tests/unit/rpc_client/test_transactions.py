"""Transactions of the client against a production node in the simulated world, at every level of the feature."""

from __future__ import annotations

import contextlib

import pytest
import trio

from kraft.admin import features, groups, topics
from kraft.admin.metadata import Topic
from kraft.admin.offsets import EARLIEST, READ_COMMITTED
from kraft.admin.transactions import describe_transaction
from kraft.common.errors import ApiError, KraftError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.consumer import Consumer
from kraft.rpc_client.errors import DeadlinePassed
from kraft.rpc_client.group_consumer import open_group_consumer
from kraft.rpc_client.producer import open_producer
from kraft.rpc_client.transactions import ABORT_SECONDS_MAX, TransactionalProducer, open_transactional_producer
from kraft.world.simulated import Universe
from tests.unit.rpc_client.simulated_node import NODE, cluster_for, play

T0 = TopicPartition("t", 0)
LEVELS = pytest.mark.parametrize("level", [0, 1, 2])


async def set_up(cluster: Cluster, level: int, partitions: int = 2) -> None:
    await topics.create_topic(cluster, "t", partitions=partitions)
    if level < 2:
        await features.update_features(cluster, {"transaction.version": level}, features.SAFE_DOWNGRADE)
        while {each.name: each.level for each in await features.describe_features(cluster)}[
            "transaction.version"
        ] != level:
            await cluster.world.clock.sleep(0.1)
        cluster.close()  # A connection knows the features of the time when it was opened.


async def committed(cluster: Cluster, until: bytes, partitions: int = 2) -> list[bytes]:
    """What a reader of committed records gets of `t`, up to the value `until`, in the order of each partition."""
    consumer = Consumer(cluster, isolation=READ_COMMITTED)
    consumer.assign({TopicPartition("t", index): 0 for index in range(partitions)})
    found: list[bytes] = []
    while until not in found:
        found += [each.record.value or b"" for each in await consumer.poll(1.0)]
    return found


async def end_with(producer: TransactionalProducer, value: bytes) -> None:
    async with producer.transaction() as transaction:
        await transaction.send("t", value, partition=0)


@LEVELS
def test_a_transaction_block_commits_on_exit_and_aborts_on_an_exception(level: int) -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await set_up(cluster, level)
        async with open_transactional_producer(cluster, "id") as producer:
            for number in range(6):
                try:
                    async with producer.transaction() as transaction:
                        for place in (0, 1, 0):
                            await transaction.send("t", b"%d" % number, partition=place)
                        if number % 2:
                            await (await transaction.send("t", b"and written", partition=0)).wait()
                            raise LookupError("changed our mind")
                except LookupError:
                    continue
            async with producer.transaction():
                pass  # Nothing was sent: nothing is committed.
            await end_with(producer, b"end")
        found = await committed(cluster, b"end")
        assert sorted(found) == sorted([b"0", b"2", b"4"] * 3 + [b"end"])

    play(body)


def test_under_transaction_version_2_no_record_has_the_epoch_of_the_previous_transaction() -> None:
    """Its markers may not be written yet: under its epoch a record would join it, and be committed with it."""

    async def body(_: Universe, cluster: Cluster) -> None:
        await set_up(cluster, 1)
        async with open_transactional_producer(cluster, "id") as producer:
            await end_with(producer, b"first")
            first = (await describe_transaction(cluster, "id")).producer_epoch
            await features.update_features(cluster, {"transaction.version": 2}, features.UPGRADE)
            epochs = []
            while not epochs or epochs[-1] == first:
                cluster.close()
                async with producer.transaction() as transaction:
                    await (await transaction.send("t", b"next", partition=0)).wait()
                    epochs.append((await describe_transaction(cluster, "id")).producer_epoch)
                    level = (await cluster.features())["transaction.version"]
                    assert epochs[-1] > first or level < 2, "a record of the next transaction has the epoch of the last"
            await end_with(producer, b"end")
        assert (await committed(cluster, b"end"))[-1] == b"end"

    play(body)


@LEVELS
def test_a_new_producer_of_a_transactional_id_fences_the_old_one_and_aborts_its_transaction(level: int) -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await set_up(cluster, level)
        async with cluster_for(universe, "old") as old, open_transactional_producer(old, "id") as first:
            await end_with(first, b"kept")
            with pytest.raises(ApiError) as fenced:
                async with first.transaction() as transaction:
                    await (await transaction.send("t", b"left", partition=0)).wait()
                    async with open_transactional_producer(cluster, "id") as second:
                        await end_with(second, b"new")
            assert fenced.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
            with pytest.raises(ApiError) as dead:
                await end_with(first, b"never")
            assert dead.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert await committed(cluster, b"new") == [b"kept", b"new"]

    play(body)


@LEVELS
@pytest.mark.parametrize("seed", range(1, 4))
def test_every_transactional_record_is_stored_once_when_the_node_is_killed(level: int, seed: int) -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await set_up(cluster, level)
        wanted: list[bytes] = []
        async with trio.open_nursery() as nemesis_nursery:

            async def nemesis() -> None:
                while True:
                    await universe.sleep(1.3)
                    universe.kill(NODE)

            nemesis_nursery.start_soon(nemesis)
            async with open_transactional_producer(cluster, "id") as producer:
                for number in range(12):
                    values = [b"%d-%d" % (number, index) for index in range(4)]
                    async with producer.transaction() as transaction:
                        for index, value in enumerate(values):
                            await transaction.send("t", value, partition=index % 2)
                            await universe.sleep(0.05)
                    wanted += values
            nemesis_nursery.cancel_scope.cancel()
        async with open_transactional_producer(cluster, "id") as producer:
            await end_with(producer, b"end")
        assert sorted(await committed(cluster, b"end")) == sorted([*wanted, b"end"])

    play(body, seed)


@LEVELS
def test_group_offsets_commit_and_abort_with_the_transaction(level: int) -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await set_up(cluster, level, partitions=1)
        await topics.create_topic(cluster, "in", partitions=1)
        place = TopicPartition("in", 0)
        async with open_producer(cluster) as source:
            for number in range(20):
                await source.send("in", b"%d" % number)
        done, tries = 0, 0
        async with (
            open_transactional_producer(cluster, "id") as producer,
            open_group_consumer(cluster, "g", ["in"], reset=EARLIEST, commits=False) as consumer,
        ):
            while done < 20:
                records = await consumer.poll(0.5)
                if not records:
                    continue
                tries += 1
                try:
                    async with producer.transaction() as transaction:
                        for each in records:
                            await transaction.send("t", each.record.value)
                        await transaction.commit_positions(consumer)
                        if tries % 2:
                            raise LookupError("not this time")
                except LookupError:
                    assert place not in await groups.committed_offsets(cluster, "g", require_stable=True)
                    continue
                done += len(records)
                assert (await groups.committed_offsets(cluster, "g", require_stable=True))[place].offset == done
            await end_with(producer, b"end")
        assert tries >= 2
        assert await committed(cluster, b"end", 1) == [*(b"%d" % number for number in range(20)), b"end"]

    play(body)


@LEVELS
def test_a_member_waits_for_offsets_with_a_pending_transaction(level: int) -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await set_up(cluster, level, partitions=1)
        async with open_producer(cluster) as source:
            for number in range(3):
                await source.send("t", b"%d" % number)
        async with (
            cluster_for(universe, "reader") as other,
            open_transactional_producer(cluster, "id") as producer,
            open_group_consumer(other, "g", ["t"], reset=EARLIEST) as consumer,
        ):
            found: list[bytes] = []
            async with producer.transaction() as transaction, trio.open_nursery() as reader_nursery:
                await transaction.send_offsets("g", {T0: 2})

                async def read() -> None:
                    while not found:
                        found.extend([each.record.value or b"" for each in await consumer.poll(1.0)])

                reader_nursery.start_soon(read)
                await universe.sleep(5.0)
                assert found == []
                reader_nursery.cancel_scope.cancel()
            await read()
        assert found == [b"2"]

    play(body)


@LEVELS
def test_a_refused_record_aborts_the_transaction_but_keeps_the_producer(level: int) -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await set_up(cluster, level)
        async with open_transactional_producer(cluster, "id") as producer:
            await end_with(producer, b"begin")
            before = await describe_transaction(cluster, "id")
            with pytest.raises(ApiError) as refused:
                async with producer.transaction() as transaction:
                    await transaction.send("t", b"small", partition=0)
                    await transaction.send("t", bytes(2_000_000), partition=1)
            assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
            await end_with(producer, b"end")
            after = await describe_transaction(cluster, "id")
            assert after.producer_epoch > before.producer_epoch, "a late batch must not join the next transaction"
        assert await committed(cluster, b"end") == [b"begin", b"end"]

    play(body)


def test_a_timed_out_transaction_is_refused() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await set_up(cluster, 2)
        async with open_transactional_producer(cluster, "id", transaction_seconds=5.0) as producer:
            with pytest.raises(KraftError):
                async with producer.transaction() as transaction:
                    await (await transaction.send("t", b"late", partition=0)).wait()
                    await universe.sleep(30.0)
        async with open_transactional_producer(cluster, "id") as producer:
            await end_with(producer, b"end")
        assert await committed(cluster, b"end") == [b"end"]

    play(body)


def test_a_commit_without_a_response_makes_the_producer_unusable() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await set_up(cluster, 2)
        cluster.operation_seconds = 10.0
        async with open_transactional_producer(cluster, "id") as producer:
            with pytest.raises(DeadlinePassed):
                async with producer.transaction() as transaction:
                    await (await transaction.send("t", b"x", partition=0)).wait()
                    universe.cut(NODE, "client")
            universe.heal()
            with pytest.raises(KraftError, match="the outcome of the last transaction is not known; open another"):
                await end_with(producer, b"never")
        async with open_transactional_producer(cluster, "id") as producer:
            await end_with(producer, b"end")
        assert await committed(cluster, b"end") == [b"end"]

    play(body)


def test_a_transaction_can_only_be_used_in_its_block_and_by_one_task() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await set_up(cluster, 2)
        async with open_transactional_producer(cluster, "id") as producer:
            async with producer.transaction() as transaction:
                await transaction.send("t", b"one", partition=0)
                with pytest.raises(KraftError, match="a transaction is open already"):
                    async with producer.transaction():
                        pass
            with pytest.raises(KraftError, match="the transaction has ended"):
                await transaction.send("t", b"two", partition=0)
            await end_with(producer, b"end")
        assert await committed(cluster, b"end") == [b"one", b"end"]

    play(body)


def test_when_two_tasks_start_a_transaction_concurrently_one_is_refused() -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await set_up(cluster, 2)
        refused: list[str] = []
        async with open_transactional_producer(cluster, "id") as producer:

            async def begin(value: bytes) -> None:
                try:
                    await end_with(producer, value)
                except KraftError as problem:
                    refused.append(str(problem))

            cluster.close()  # So that the first has to wait for a connection.
            async with trio.open_nursery() as nursery:
                nursery.start_soon(begin, b"x")
                nursery.start_soon(begin, b"x")
            assert [each.partition(": ")[2] for each in refused] == ["a transaction is open already"]
            await end_with(producer, b"end")
        assert await committed(cluster, b"end") == [b"x", b"end"]

    play(body)


def test_the_abort_of_a_cancelled_task_is_bounded_even_within_a_nursery() -> None:
    async def body(universe: Universe, cluster: Cluster) -> None:
        await set_up(cluster, 2)
        async with open_transactional_producer(cluster, "id") as producer:
            with trio.CancelScope() as working:
                async with producer.transaction() as transaction, trio.open_nursery() as nursery:
                    await (await transaction.send("t", b"x", partition=0)).wait()
                    nursery.start_soon(trio.sleep_forever)
                    universe.cut(NODE, "client")
                    began = cluster.world.clock.now()
                    working.cancel()
                    await trio.sleep_forever()
            assert cluster.world.clock.now() - began < ABORT_SECONDS_MAX + 1.0
            universe.heal()

    play(body)


@LEVELS
def test_a_send_that_outlives_its_transaction_belongs_to_the_next_one(
    level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(_: Universe, cluster: Cluster) -> None:
        await set_up(cluster, level)
        may, held, topic = trio.Event(), ["once"], cluster.topic

        async def slowly(name: str, *, create: bool = False) -> Topic:
            if held:
                held.pop()
                await may.wait()
            return await topic(name, create=create)

        async with open_transactional_producer(cluster, "id") as producer:
            await end_with(producer, b"begin")
            monkeypatch.setattr(cluster, "topic", slowly)
            for value in (b"aborted", b"kept", b"aborted"):
                with contextlib.suppress(ZeroDivisionError):
                    async with producer.transaction() as transaction:
                        await transaction.send("t", value, partition=0)
                        await cluster.world.clock.sleep(0.5)
                        if value == b"aborted":
                            raise ZeroDivisionError
                        may.set()
            await end_with(producer, b"end")
        assert await committed(cluster, b"end") == [b"begin", b"kept", b"end"]

    play(body)
