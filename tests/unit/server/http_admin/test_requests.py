"""Kafka requests of the HTTP admin to its own broker: none holds up the node's loop."""

from __future__ import annotations

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from kraft.common.config.endpoints import Endpoint
from kraft.common.errors import ApiError, ProtocolError
from kraft.common.logging import Loggers
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.registry import BROKER, Handler, Registry
from kraft.handlers.security.permissions import ANYBODY
from kraft.network.reply import FileRange, Peer, Reply
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.framing import encode_response
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kraft.server.http_admin.requests import MUTED_SECONDS_MAX, LocalRequests
from kraft.world.ports import Threads as ThreadsPort
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import simulate

FETCHES = Registry(BROKER, [Handler(1, (4, 12), permission=ANYBODY)])


def local_requests(
    dispatcher: RequestDispatcher, threads: ThreadsPort, lines: list[Any], registry: Registry = FETCHES
) -> LocalRequests:
    log = Loggers(lines.append, cast("Any", SimpleNamespace(wall_ms=lambda: 0))).get("http_admin")
    return LocalRequests(
        dispatcher,
        registry,
        Endpoint("PLAINTEXT", "localhost", 9092),
        threads,
        log,
        cast("Any", SimpleNamespace(sleep=trio.sleep)),
    )


RECORDS = bytes(range(256)) * 12_000
MEGABYTE = 1 << 20


def test_uncached_file_content_is_read_in_a_worker_thread() -> None:
    async def play(universe: Universe) -> None:
        world = universe.world_for("a")
        file = world.files.open("/file", create=True)
        file.append((RECORDS,))
        universe.disk("a").cold_rate = 1.0
        ran: list[object] = []

        class Threads:
            async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
                ran.append(arguments[1:])
                return await world.threads.run(function, *arguments)

        class Dispatcher:
            def dispatch(self, peer: Peer, frame: memoryview) -> Reply:
                topics = [FetchableTopicResponse(topic="t", partitions=[PartitionData(records=memoryview(RECORDS))])]
                whole = bytes(encode_response(1, 12, 1, FetchResponse(responses=topics)))
                head, tail = whole.split(RECORDS)
                return Reply((head, FileRange(file, 0, len(RECORDS), None), tail))

        dispatcher, threads = cast("RequestDispatcher", Dispatcher()), cast("ThreadsPort", Threads())
        local = local_requests(dispatcher, threads, [])
        response: Any = await local.call(1, 12, FetchRequest())
        assert response.responses[0].partitions[0].records == RECORDS
        assert ran == [(0, MEGABYTE), (MEGABYTE, MEGABYTE), (2 * MEGABYTE, len(RECORDS) - 2 * MEGABYTE)]

    simulate(play)


class Answering:
    """A dispatcher that answers every request with what it was given, or fails as it was told to."""

    def __init__(self, outcome: Reply | Exception) -> None:
        self._outcome = outcome

    def dispatch(self, peer: Peer, frame: memoryview) -> Reply:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


async def refusal(outcome: Reply | Exception, threads: ThreadsPort) -> ApiError:
    """What the HTTP admin is told when the broker's answer to a Fetch is `outcome`."""
    dispatcher = cast("RequestDispatcher", Answering(outcome))
    lines: list[Any] = []
    local = local_requests(dispatcher, threads, lines)
    with pytest.raises(ApiError) as told:
        await local.call(1, 12, FetchRequest())
    assert len(lines) == (told.value.code == ErrorCode.KAFKA_STORAGE_ERROR)
    return told.value


@pytest.mark.parametrize("size", [100, 5000])
def test_an_unreadable_or_truncated_file_is_a_storage_error(size: int) -> None:
    async def play(universe: Universe) -> None:
        world = universe.world_for("a")
        file = world.files.open("/file", create=True)
        file.append((bytes(1000),))
        if size < 1000:
            universe.disk("a").faults = [Fault("pread", errno.EIO)]
        told = await refusal(Reply((b"head", FileRange(file, 0, size, None))), world.threads)
        assert told.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "/file" in told.message

    simulate(play)


def test_a_response_that_the_broker_fails_to_encode_is_not_a_client_error() -> None:
    async def play(universe: Universe) -> None:
        world = universe.world_for("a")
        told = await refusal(ProtocolError("FETCH failed in the server; its log has the details"), world.threads)
        assert (told.code, told.message) == (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "FETCH failed in the server; its log has the details",
        )
        assert (await refusal(Reply((b"nonsense",)), world.threads)).code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert (await refusal(OSError(errno.EIO, "the disk"), world.threads)).code == ErrorCode.KAFKA_STORAGE_ERROR

    simulate(play)


def test_decoding_a_response_about_ten_thousand_partitions_yields_to_other_tasks() -> None:
    async def play(universe: Universe) -> None:
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3])
            for index in range(10_000)
        ]
        answer = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])
        dispatcher = cast("RequestDispatcher", Answering(Reply((bytes(encode_response(3, 12, 1, answer)),))))
        registry = Registry(BROKER, [Handler(3, (12, 12), permission=ANYBODY)])
        local = local_requests(dispatcher, universe.world_for("a").threads, [], registry)
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            response: Any = await local.call(3, 12, MetadataRequest())
            nursery.cancel_scope.cancel()
        assert len(response.topics[0].partitions) == 10_000
        assert turns >= 3

    simulate(play)


def test_a_caller_over_quota_gets_a_delayed_response_and_is_charged_by_its_own_name() -> None:
    peers: list[Peer] = []
    answer = Reply((bytes(encode_response(1, 12, 1, FetchResponse())),), throttle_ms=90_000)

    class Muting:
        last_request = None

        def dispatch(self, peer: Peer, frame: memoryview) -> Reply:
            peers.append(peer)
            return answer

    async def main() -> None:
        local = local_requests(cast("RequestDispatcher", Muting()), cast("ThreadsPort", None), [])
        await local.of_caller("User:alice", "10.0.0.7", has_logged_in=True).call(1, 12, FetchRequest())
        assert trio.current_time() == MUTED_SECONDS_MAX

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [(peer.principal, peer.host) for peer in peers] == [("User:alice", "10.0.0.7")]
