"""How many Python calls, in how many files of kraft/, one request costs in the steady state: from the arrival of its
frame at the connection until its answer is on its way and nothing that it began is left to do.

A whole node (broker and controller) of the simulated world is asked over the network by a client that is not counted;
the simulated world is not counted either, nor what begins no call of kraft/. A coroutine counts whenever it is
resumed, a generator with every value. Of SAMPLES equal requests the middle one counts: now and then one is timed for
the metrics, or writes an index entry.

`hops.json` has the figures that hold now: each may fall, none may rise. `python -m tests.tidy.hops` measures and
lowers them; it never raises one. `python -m tests.tidy.hops NAME` lists the calls of one request, in order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any, Final

from kraft.protocol.framing import SIZE_BYTES, decode_response, encode_request
from kraft.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.records import fast_path
from kraft.server.http_admin.requests import LocalRequests
from kraft.server.node import Node
from kraft.world.ports import Stream
from kraft.world.simulated import Universe
from tests.tidy.source import ROOT
from tests.unit.server.brokers import batch
from tests.unit.server.nodes import HOST, PORT, configuration, running

TABLE: Final = ROOT / "tests/tidy/hops.json"
COUNTED: Final = f"{ROOT}/kraft/"
NOT_COUNTED: Final = (f"{ROOT}/kraft/rpc_client/", f"{ROOT}/kraft/world/simulated/", str(fast_path.__file__))
"""`fast_path` is machine code where there was a compiler."""
COMPREHENSIONS: Final = ("<listcomp>", "<setcomp>", "<dictcomp>")
"""No calls since Python 3.12."""
SAMPLES: Final = 15
WARM_UP: Final = 20
QUIET_SECONDS: Final = 0.05
"""After an answer, for what goes on behind it (a transaction's marker)."""
GAP_SECONDS: Final = 0.01
"""Before a request: for a client that asks without a pause the connection looks at its socket again and again."""
TOPIC: Final = "orders"
GROUP: Final = "readers"

Calls = list[tuple[str, str]]
"""File below kraft/ and name of the function, in the order of the calls."""


class Counting:
    """Notes the calls of the product while it is on."""

    def __init__(self) -> None:
        self.calls: Calls = []

    def __enter__(self) -> Counting:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        name = frame.f_code.co_name
        if (
            event == "call"
            and name not in COMPREHENSIONS
            and path.startswith(COUNTED)
            and not path.startswith(NOT_COUNTED)
        ):
            self.calls.append((path.removeprefix(COUNTED), frame.f_code.co_qualname))


class Client:
    """Sends whole frames and waits for whole answers. What encodes and decodes them is not counted."""

    def __init__(self, universe: Universe, node: Node, stream: Stream) -> None:
        self.universe = universe
        self.node = node
        self._stream = stream

    async def ask(self, request: Any) -> Any:
        return (await self.counted(request, 0.0))[0]

    async def counted(self, request: Any, quiet_seconds: float) -> tuple[Any, Calls]:
        """The answer, and the calls until it is here and `quiet_seconds` have passed."""
        assert self.node.broker is not None
        handler = self.node.broker.services.registry.get(request.API_KEY)
        assert handler is not None
        version = handler.max_version
        frame = encode_request(request.API_KEY, version, 7, "client", request)
        await self.universe.sleep(GAP_SECONDS)
        with Counting() as counting:
            await self._stream.send_all([frame])
            answer = await self._receive(int.from_bytes(await self._receive(SIZE_BYTES), "big"))
            if quiet_seconds:
                await self.universe.sleep(quiet_seconds)
        return decode_response(request.API_KEY, version, answer)[1], counting.calls

    async def _receive(self, size: int) -> bytes:
        buffer = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            count = self._stream.receive_nowait(buffer[filled:])
            if count is None:
                await self._stream.wait_readable()
            else:
                assert count, "the node has closed the connection"
                filled += count
        return bytes(buffer)

    async def middle(
        self,
        request_of: Callable[[int], Awaitable[Any]],
        part_of: Callable[[Any], Any] = lambda answer: answer,
        quiet_seconds: float = 0.0,
    ) -> Calls:
        """What the middle one of several costs. `request_of` gets the number of the request, `part_of` the answer: it
        gives what has the error code."""
        samples = []
        for number in range(WARM_UP + SAMPLES):
            answer, calls = await self.counted(await request_of(number), quiet_seconds)
            assert part_of(answer).error_code == 0, answer
            samples.append(calls)
        return middle_of(samples)


def middle_of(samples: Sequence[Calls]) -> Calls:
    return sorted(samples[WARM_UP:], key=len)[SAMPLES // 2]


@asynccontextmanager
async def serving(universe: Universe) -> AsyncIterator[Client]:
    """A node with a topic of one partition, and a client."""
    async with running(universe, configuration()) as run:
        stream = await universe.world_for("counted").network.connect(HOST, PORT)
        client = Client(universe, run.node, stream)
        await client.ask(CreateTopicsRequest(topics=[_topic(TOPIC)]))
        await universe.sleep(1.0)
        yield client
        stream.close()


def _topic(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1)


def _topic_id(client: Client) -> bytes:
    topic = client.node.shared.loader.image.topics.by_name(TOPIC)
    assert topic is not None
    return topic.id


def _produce(client: Client, records: bytes, transactional_id: str | None = None) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=records)]
    topics = [TopicProduceData(topic_id=_topic_id(client), partition_data=data)]
    return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics, transactional_id=transactional_id)


def _now(client: Client) -> int:
    return client.node.world.clock.wall_ms()


def _first_partition(answer: Any) -> Any:
    return answer.responses[0].partition_responses[0]


async def produce(client: Client) -> Calls:
    """One batch of one record, acks=all, one replica."""

    async def request(_: int) -> ProduceRequest:
        return _produce(client, batch(b"v", timestamp_ms=_now(client)))

    return await client.middle(request, _first_partition)


async def produce_idempotent(client: Client) -> Calls:
    """The same of a producer with an id, as clients have one by default."""
    granted = await client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
    identity = {"producer_id": granted.producer_id, "producer_epoch": granted.producer_epoch}

    async def request(number: int) -> ProduceRequest:
        return _produce(client, batch(b"v", timestamp_ms=_now(client), base_sequence=number, **identity))

    return await client.middle(request, _first_partition)


async def fetch(client: Client) -> Calls:
    """A Fetch of a session that finds one batch."""
    position = FetchPartition(partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic_id=_topic_id(client), partitions=[position])]
    session = (await client.ask(FetchRequest(session_epoch=0, topics=topics))).session_id

    async def request(number: int) -> FetchRequest:
        await client.ask(_produce(client, batch(b"v", timestamp_ms=_now(client))))
        position.fetch_offset = number
        return FetchRequest(max_wait_ms=500, min_bytes=1, session_id=session, session_epoch=number + 1, topics=topics)

    def found(answer: Any) -> Any:
        partition = answer.responses[0].partitions[0]
        assert partition.records
        return partition

    return await client.middle(request, found)


async def _until_served(client: Client, request: Any) -> Any:
    """The answer of a coordinator, which has its topic made when it is first asked."""
    for _ in range(20):
        answer = await client.ask(request)
        if answer.error_code == 0:
            return answer
        await client.universe.sleep(1.0)
    raise AssertionError(answer)


async def _joined(client: Client) -> ConsumerGroupHeartbeatRequest:
    """The heartbeat of a member that has said that it owns what it is assigned."""
    joining = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    await client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]))
    epoch = (await _until_served(client, joining)).member_epoch
    owned = [TopicPartitions(topic_id=_topic_id(client), partitions=[0])]
    beat = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="member", member_epoch=epoch, topic_partitions=owned)
    epoch = (await _until_served(client, beat)).member_epoch
    return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="member", member_epoch=epoch)


async def heartbeat(client: Client) -> Calls:
    """A ConsumerGroupHeartbeat (KIP-848) of a member for which there is no news."""
    beat = await _joined(client)

    async def request(_: int) -> ConsumerGroupHeartbeatRequest:
        return beat

    return await client.middle(request)


async def offset_commit(client: Client) -> Calls:
    """An OffsetCommit of one partition by a member of a group."""
    beat = await _joined(client)

    async def request(number: int) -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        return OffsetCommitRequest(
            group_id=GROUP,
            member_id=beat.member_id,
            generation_id_or_member_epoch=beat.member_epoch,
            topics=[OffsetCommitRequestTopic(topic_id=_topic_id(client), partitions=[partition])],
        )

    return await client.middle(request, lambda answer: answer.topics[0].partitions[0])


async def end_txn(client: Client) -> Calls:
    """An EndTxn (KIP-890) of one partition, until its marker is written and the outcome noted."""
    beginning = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    await client.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]))
    producer = await _until_served(client, beginning)

    async def request(_: int) -> EndTxnRequest:
        identity = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
        records = batch(b"v", timestamp_ms=_now(client), base_sequence=0, is_transactional=True, **identity)
        answer = _first_partition(await client.ask(_produce(client, records, "t")))
        assert answer.error_code == 0, answer
        return EndTxnRequest(transactional_id="t", committed=True, **identity)

    def ended(answer: Any) -> Any:
        nonlocal producer
        producer = answer
        return answer

    return await client.middle(request, ended, QUIET_SECONDS)


async def create_topic(client: Client) -> Calls:
    """A topic of one partition as the HTTP admin has its own node create it, until its leader is there: the node's
    part, without the HTTP server in its other thread."""
    broker = client.node.broker
    assert broker is not None
    local = LocalRequests(
        broker.dispatcher,
        broker.services.registry,
        client.node.config.broker_listeners[0],
        client.node.world.threads,
        client.node.loggers.get("http_admin"),
        client.node.world.clock,
    )

    samples = []
    for number in range(WARM_UP + SAMPLES):
        request = CreateTopicsRequest(topics=[_topic(f"new-{number}")], timeout_ms=5000)
        with Counting() as counting:
            answer: Any = await local.call(request.API_KEY, 7, request)
            await client.universe.sleep(QUIET_SECONDS)
        assert answer.topics[0].error_code == 0, answer
        samples.append(counting.calls)
    return middle_of(samples)


REQUESTS: Final[Mapping[str, Callable[[Client], Awaitable[Calls]]]] = {
    "Produce": produce,
    "Produce of an idempotent producer": produce_idempotent,
    "Fetch of one batch": fetch,
    "ConsumerGroupHeartbeat without news": heartbeat,
    "OffsetCommit": offset_commit,
    "EndTxn with its marker": end_txn,
    "Topic creation by the HTTP admin": create_topic,
}


def measure(name: str) -> Calls:
    """The calls of a request named in REQUESTS."""

    async def main(universe: Universe) -> Calls:
        async with serving(universe) as client:
            return await REQUESTS[name](client)

    return Universe(1).run(main, seconds_max=1000.0)


def figures(calls: Calls) -> dict[str, int]:
    return {"calls": len(calls), "files": len({file for file, _ in calls})}


def table() -> dict[str, dict[str, int]]:
    kept: dict[str, dict[str, int]] = json.loads(TABLE.read_text())
    return kept


def complaints(name: str, found: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """What has risen, and what has fallen and is not noted."""
    listing = f"(python -m tests.tidy.hops {name!r} lists them)"
    risen = [
        f"{name} costs {found[kind]} {kind}, at most {allowed[kind]} are allowed {listing}"
        for kind in allowed
        if found[kind] > allowed[kind]
    ]
    fallen = [
        f"{name} costs {found[kind]} {kind}, and {allowed[kind]} are listed: run python -m tests.tidy.hops"
        for kind in allowed
        if found[kind] < allowed[kind]
    ]
    return risen + fallen


def lower(allowed: Mapping[str, int], found: Mapping[str, int]) -> dict[str, int]:
    return {kind: min(allowed[kind], found[kind]) for kind in allowed}


def _lower_all() -> None:
    kept = table()
    for name in REQUESTS:
        found = figures(measure(name))
        print(f"{name}: {found['calls']} calls in {found['files']} files")
        kept[name] = lower(kept.get(name, found), found)
    TABLE.write_text(json.dumps(kept, indent=1) + "\n")


def _list(name: str) -> None:
    calls = measure(name)
    for file, function in calls:
        print(f"{file:60} {function}")
    print(figures(calls))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _list(sys.argv[1])
    else:
        _lower_all()
