"""What a producer does where some of what it sends fails: nothing that is acknowledged is missing, and what fails
holds up nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.common.errors import ApiError
from kraft.common.ids import TopicPartition
from kraft.protocol.error_codes import ErrorCode, name_of
from kraft.protocol.records.record_batch import RecordBatch, batches
from kraft.rpc_client.accumulator import Delivery
from kraft.rpc_client.connection import Disconnected
from kraft.rpc_client.errors import DeadlinePassed
from kraft.rpc_client.producer import open_producer
from kraft.world.simulated import Universe
from tests.unit.rpc_client.scripted_cluster import ScriptedCluster, sent, stored

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def only_batch(data: bytes) -> RecordBatch:
    [batch] = batches(data)
    return batch


class Log:
    """One partition as a broker keeps it: a batch with a producer's sequence that it has already is acknowledged
    again, and not stored."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.known: dict[tuple[int, int, int, int], int] = {}

    def append(self, data: bytes) -> int:
        batch = only_batch(data)
        values = [bytes(record.value or b"") for record in batch.records()]
        offset = self.known.setdefault(
            (batch.producer_id, batch.producer_epoch, batch.base_sequence, len(values)), len(self.values)
        )
        if offset == len(self.values):
            self.values += values
        return offset


async def outcome(delivery: Delivery) -> int | str:
    try:
        return (await delivery.wait()).offset
    except ApiError as problem:
        return name_of(problem.code)
    except DeadlinePassed:
        return "too late"


def test_a_batch_that_failed_with_unknown_outcome_keeps_its_sequence_to_itself() -> None:
    log = Log()

    async def answer(request: Any, _: int | None) -> Any:
        is_first = not log.values
        offset = log.append(sent(request)[T0])
        return stored({T0: (ErrorCode.UNKNOWN_SERVER_ERROR if is_first else ErrorCode.NONE, offset)})

    async def main(universe: Universe) -> None:
        async with open_producer(ScriptedCluster(universe, {"t": [1]}, answer)) as producer:
            assert await outcome(await producer.send("t", b"first")) == "UNKNOWN_SERVER_ERROR"
            assert await outcome(await producer.send("t", b"second")) == 1
        assert log.values == [b"first", b"second"], "what is acknowledged is stored"

    Universe(1).run(main)


def test_a_topic_unknown_to_the_asked_node_is_waited_for() -> None:
    log = Log()

    async def answer(request: Any, _: int | None) -> Any:
        return stored({T0: (ErrorCode.NONE, log.append(sent(request)[T0]))})

    async def main(universe: Universe) -> None:
        cluster = ScriptedCluster(universe, {}, answer)

        async def tell_later() -> None:
            await cluster.world.clock.sleep(1.5)
            cluster.leaders["t"] = [1]

        async with open_producer(cluster) as producer, trio.open_nursery() as nursery:
            nursery.start_soon(tell_later)
            assert await outcome(await producer.send("t", b"first")) == 0
            began = cluster.world.clock.now()
            with pytest.raises(ApiError, match="topic nowhere") as refusal:
                await producer.send("nowhere", b"x")
            assert refusal.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert 2.0 <= cluster.world.clock.now() - began < 2.5

    Universe(1).run(main)


def test_a_partition_without_a_leader_delays_no_other_partition() -> None:
    logs = {T0: Log(), T1: Log()}
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    async def answer(request: Any, _: int | None) -> Any:
        return stored(
            {
                each: (ErrorCode.NONE, logs[each].append(data)) if each in logs else unknown
                for each, data in sent(request).items()
            }
        )

    async def main(universe: Universe) -> None:
        cluster = ScriptedCluster(universe, {"t": [-1, 1], "gone": [1]}, answer)
        async with open_producer(cluster, delivery_seconds=20.0) as producer:
            began = cluster.world.clock.now()
            held = await producer.send("t", b"held", partition=0)
            deleted = await producer.send("gone", b"x")
            del cluster.leaders["gone"]
            cluster.forget()
            for number in range(100):
                assert await outcome(await producer.send("t", b"%d" % number, partition=1)) == number
            assert cluster.world.clock.now() - began < 5, "the others were not held up"
            assert cluster.metadata_asked < 50, "nobody asks as often as something is sent"
            cluster.leaders["t"] = [2, 1]
            assert await outcome(held) == 0
            assert await outcome(deleted) == "too late"
        assert logs[T0].values == [b"held"]

    Universe(1).run(main)


def test_a_refused_topic_fails_alone() -> None:
    log = Log()

    async def answer(request: Any, _: int | None) -> Any:
        return stored({each: (ErrorCode.NONE, log.append(data)) for each, data in sent(request).items()})

    class Refusing(ScriptedCluster):
        def _topic(self, name: str) -> Any:
            topic = super()._topic(name)
            if name == "secret" and self.metadata_asked > 2:
                topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return topic

    async def main(universe: Universe) -> None:
        cluster = Refusing(universe, {"t": [1], "secret": [1]}, answer)
        async with open_producer(cluster) as producer:
            await cluster.topic("secret")
            await cluster.topic("t")
            secret, plain = await producer.send("secret", b"x"), await producer.send("t", b"y")
            cluster.forget()
            assert (await outcome(secret), await outcome(plain)) == ("TOPIC_AUTHORIZATION_FAILED", 0)

    Universe(1).run(main)


def test_a_producer_without_reachable_nodes_fails_its_queued_records_and_recovers() -> None:
    log = Log()
    reachable = False

    class Away(ScriptedCluster):
        async def call(self, request: Any, **options: Any) -> Any:
            if not reachable and self.metadata_asked:
                raise Disconnected("nobody is there")
            return await super().call(request, **options)

    async def answer(request: Any, _: int | None) -> Any:
        return stored({T0: (ErrorCode.NONE, log.append(sent(request)[T0]))})

    async def main(universe: Universe) -> None:
        nonlocal reachable
        cluster = Away(universe, {"t": [1]}, answer)
        began = cluster.world.clock.now()
        async with open_producer(cluster, delivery_seconds=90.0) as producer:
            assert await outcome(await producer.send("t", b"x")) == "too late"
            assert 90 <= cluster.world.clock.now() - began < 95
            reachable = True
            assert await outcome(await producer.send("t", b"y")) == 0

    Universe(1).run(main)


def test_a_batch_that_is_too_large_for_the_topic_is_split() -> None:
    log = Log()

    async def answer(request: Any, _: int | None) -> Any:
        data = sent(request)[T0]
        return stored(
            {T0: (ErrorCode.MESSAGE_TOO_LARGE, -1) if len(data) > 1000 else (ErrorCode.NONE, log.append(data))}
        )

    async def main(universe: Universe) -> None:
        async with open_producer(ScriptedCluster(universe, {"t": [1]}, answer)) as producer:
            deliveries = [await producer.send("t", b"%0100d" % number) for number in range(20)]
            deliveries.append(await producer.send("t", b"x" * 2000))
            assert [await outcome(each) for each in deliveries] == [*range(20), "MESSAGE_TOO_LARGE"]
        assert log.values == [b"%0100d" % number for number in range(20)]

    Universe(1).run(main)


def test_delivery_timeout_also_bounds_an_unanswered_request() -> None:
    asked: list[float] = []

    class Silent(ScriptedCluster):
        async def call(self, request: Any, *, seconds: float | None = None, **options: Any) -> Any:
            if type(request).__name__ != "ProduceRequest":
                return await super().call(request, **options)
            asked.append(self.request_seconds if seconds is None else seconds)
            await self.world.clock.sleep(asked[-1])
            raise TimeoutError("not answered")

    async def main(universe: Universe) -> None:
        cluster = Silent(universe, {"t": [1]}, None)  # type: ignore[arg-type]  # Nobody answers.
        began = cluster.world.clock.now()
        async with open_producer(cluster, delivery_seconds=5.0) as producer:
            assert await outcome(await producer.send("t", b"x")) == "too late"
        assert cluster.world.clock.now() - began < 7, "and not a request's 30 seconds"

    Universe(1).run(main)


def test_flush_waits_only_for_records_sent_before_it() -> None:
    log = Log()

    async def main(universe: Universe) -> None:
        async def answer(request: Any, _: int | None) -> Any:
            await universe.sleep(0.1)
            return stored({T0: (ErrorCode.NONE, log.append(sent(request)[T0]))})

        async with (
            open_producer(ScriptedCluster(universe, {"t": [1]}, answer)) as producer,
            trio.open_nursery() as nursery,
        ):

            async def go_on_sending() -> None:
                while True:
                    await producer.send("t", b"more")
                    await universe.sleep(0.01)

            nursery.start_soon(go_on_sending)
            first = await producer.send("t", b"first")
            with trio.move_on_after(60) as patience:
                await producer.flush()
            assert first.is_done
            assert not patience.cancelled_caught, "somebody always sends more"
            nursery.cancel_scope.cancel()

    Universe(1).run(main)


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_RECORD])
def test_every_failure_of_a_sent_batch_requests_a_new_producer_id(code: int) -> None:
    seen: list[tuple[int, int]] = []

    async def answer(request: Any, _: int | None) -> Any:
        batch = only_batch(sent(request)[T0])
        seen.append((batch.producer_id, batch.base_sequence))
        return stored({T0: (code if len(seen) == 2 else ErrorCode.NONE, len(seen))})

    async def main(universe: Universe) -> None:
        async with open_producer(ScriptedCluster(universe, {"t": [1]}, answer)) as producer:
            for _ in range(4):
                await outcome(await producer.send("t", b"x"))

    Universe(1).run(main)
    assert seen == [(1, 0), (1, 1), (2, 0), (2, 1)]
