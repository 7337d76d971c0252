"""What becomes of a frame before and after its handler."""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from typing import Any

import pytest
import trio

from kraft.common.errors import ProtocolError
from kraft.common.ids import Uuid
from kraft.common.logging import Loggers
from kraft.handlers.dispatcher import COPIED_AT_ONCE_BYTES, SAMPLED, RequestDispatcher
from kraft.handlers.registry import BROKER, Handler, Registry, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.metadata.metadata_cache import ENCODED_BYTES_MAX, ENCODED_KEY_BYTES_MAX, MetadataCache
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.no_op_record import NoOpRecord
from kraft.metadata.records.register_broker_record import RegisterBrokerRecord
from kraft.metadata.records.topic_record import TopicRecord
from kraft.network.reply import FirstStage, Peer, Reply, Staged
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.framing import decode_response, encode_request
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.heartbeat_response import HeartbeatResponse
from kraft.world.real import RealWorld

PEER = Peer("127.0.0.1", "PLAINTEXT", ("127.0.0.1", 9092))


def dispatcher(*handlers: Handler) -> RequestDispatcher:
    world = RealWorld(log_sink=lambda event: None)
    return RequestDispatcher(
        Registry(BROKER, handlers), None, world.clock, Loggers(world.log_sink, world.clock, "debug").get("requests")
    )


def dispatch(dispatching: RequestDispatcher, frame: bytes) -> bytes:
    async def serve() -> bytes:
        outcome: Reply | Awaitable[Reply] = dispatching.dispatch(PEER, memoryview(frame))
        reply = outcome if isinstance(outcome, Reply) else await outcome
        return b"".join(bytes(part) for part in reply.parts)  # type: ignore[arg-type]  # No files here.

    return trio.run(serve)


def heartbeats(seen: list[Any]) -> Handler:
    api = Handler(ApiKey.HEARTBEAT, between(0, 4), permission=ANYBODY)

    @api.serve
    async def serve(request: HeartbeatRequest, context: RequestContext, services: None) -> HeartbeatResponse:
        seen.append(request)
        return HeartbeatResponse()

    return api


@pytest.mark.parametrize("version", [0, 4])
def test_bytes_after_a_request_are_ignored_as_in_kafka(version: int) -> None:
    seen: list[Any] = []
    request = HeartbeatRequest(group_id="g", member_id="m")
    frame = encode_request(ApiKey.HEARTBEAT, version, 7, "c", request)[4:] + b"\1\0\0"
    reply = dispatch(dispatcher(heartbeats(seen)), frame)
    assert seen == [request]
    assert decode_response(ApiKey.HEARTBEAT, version, memoryview(reply)[4:]) == (7, HeartbeatResponse())


def test_a_truncated_request_closes_the_connection() -> None:
    frame = encode_request(ApiKey.HEARTBEAT, 4, 7, "c", HeartbeatRequest(group_id="g", member_id="m"))[4:]
    for cut in range(len(frame)):
        with pytest.raises(ProtocolError):
            dispatch(dispatcher(heartbeats([])), frame[:cut])


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.HEARTBEAT, 5), (ApiKey.HEARTBEAT, -1), (ApiKey.FETCH, 4), (-1, 0), (32767, 0)]
)
def test_an_unsupported_api_or_version_closes_the_connection(key: int, version: int) -> None:
    with pytest.raises(ProtocolError, match="not served"):
        dispatch(dispatcher(heartbeats([])), struct.pack(">hhih", key, version, 7, -1) + b"\0\0\0")


def test_a_staged_request_keeps_its_frame_whether_it_is_timed_or_not() -> None:
    api = Handler(ApiKey.HEARTBEAT, between(0, 4), permission=ANYBODY)
    stage = FirstStage(1)

    @api.serve_raw
    def serve(frame: memoryview, position: int, context: RequestContext, services: None) -> Staged:
        async def answer() -> Reply:
            return Reply((b"answer",))

        return Staged(answer(), stage)

    dispatching = dispatcher(api)
    frame = encode_request(ApiKey.HEARTBEAT, 4, 7, "c", HeartbeatRequest(group_id="g", member_id="m"))[4:]

    async def main() -> None:
        for number in range(2 * SAMPLED):
            outcome = dispatching.dispatch(PEER, memoryview(frame))
            assert isinstance(outcome, Staged), f"request {number}"
            assert outcome.first_stage is stage
            assert (await outcome).parts == (b"answer",)

    trio.run(main)
    assert dispatching.counters[ApiKey.HEARTBEAT, 4].durations.count == 2


def test_a_large_request_is_copied_in_chunks_and_releases_its_frame_before_it_is_handled() -> None:
    size = 12 * COPIED_AT_ONCE_BYTES
    api = Handler(ApiKey.HEARTBEAT, between(0, 4), permission=ANYBODY)
    seen: list[Any] = []
    turns = 0

    @api.serve
    async def serve(request: HeartbeatRequest, context: RequestContext, services: None) -> HeartbeatResponse:
        seen.append(request)
        assert outcome.first_stage.is_over
        return HeartbeatResponse()

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    request = HeartbeatRequest(group_id="g", member_id="m")
    frame = encode_request(ApiKey.HEARTBEAT, 4, 7, "c", request)[4:] + bytes(size)
    outcome = dispatcher(api).dispatch(PEER, memoryview(frame))
    assert isinstance(outcome, Staged)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            outcome.first_stage.when_over(lambda: seen.append(turns))
            await outcome
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert seen[0] >= size / COPIED_AT_ONCE_BYTES
    assert seen[1] == request


def test_responses_to_huge_requests_are_not_cached() -> None:
    cache = MetadataCache(RealWorld(log_sink=lambda event: None).clock, MetadataImage())
    image = cache.image
    cache.remember((13, "PLAINTEXT", bytes(ENCODED_KEY_BYTES_MAX + 1)), b"answer", image)
    assert not cache.encoded
    cache.remember((13, "PLAINTEXT", bytes(ENCODED_KEY_BYTES_MAX)), b"answer", image)
    assert len(cache.encoded) == 1
    for number in range(100):
        cache.remember((13, "PLAINTEXT", b"%d" % number), bytes(1 << 20), image)
        assert sum(len(key[2]) + len(body) for key, body in cache.encoded.items()) <= ENCODED_BYTES_MAX
    assert len(cache.encoded) > 5
    cache.set(image.replay_batch([TopicRecord(name="t", topic_id=Uuid(bytes(15) + b"1"))])[0], 1, 1)
    assert not cache.encoded
    cache.remember((13, "PLAINTEXT", b"large"), bytes(ENCODED_BYTES_MAX), cache.image)
    assert not cache.encoded
    cache.remember((13, "PLAINTEXT", b"old"), b"answer", image)
    assert not cache.encoded, "it was made as of an older image"


def test_metadata_records_about_neither_topics_nor_brokers_keep_cached_responses() -> None:
    cache = MetadataCache(RealWorld(log_sink=lambda event: None).clock, MetadataImage())
    cache.remember((13, "PLAINTEXT", b"all"), b"answer", cache.image)
    configured = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1")
    for offset, record in enumerate((NoOpRecord(), configured)):
        cache.set(cache.image.replay_batch([record])[0], offset, 1)
        assert cache.encoded
    cache.set(cache.image.replay_batch([RegisterBrokerRecord(broker_id=2, broker_epoch=1)])[0], 3, 1)
    assert not cache.encoded
