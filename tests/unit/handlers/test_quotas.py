"""Quotas against a broker over the simulated world: what an answer tells, and what it holds back."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from kraft.handlers.telemetry import HEADER_BYTES_MAX
from kraft.metadata.records.client_quota_record import ClientQuotaRecord, EntityData
from kraft.network.reply import Reply
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kraft.protocol.messages.heartbeat_request import HeartbeatRequest
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kraft.world.simulated import Universe
from tests.unit.server.brokers import Broker, batch, broker, decoded, simulate
from tests.unit.telemetry.pushes import gauge, point, push

PRODUCE, FETCH = 12, 12
BIG = 50_000
METRICS = push(gauge("m", point(1.5)))


def limit(made: Broker, key: str, value: float | None, **parts: str | None) -> None:
    """Set or take away a quota of who is named by `client_id` and `user`."""
    entity = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in parts.items()]
    made.publish(ClientQuotaRecord(entity=entity, key=key, value=value or 0.0, remove=value is None))
    made.server.quotas.take_image(made.image.client_quotas)


def produce(size: int, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(bytes(size)))
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def fetch(wait_ms: int = 0, **fields: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10 << 20)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=10 << 20, session_epoch=-1, topics=topics, **fields)


def waits_of(made: Broker) -> dict[str, float]:
    """How often clients waited, by quota."""
    return {quota: count for (_, quota), count in made.server.audit.throttles.waits()}


async def reply_to(made: Broker, request: Any, version: int) -> Reply:
    outcome = made.dispatch(request, version)
    return outcome if isinstance(outcome, Reply) else await outcome


def play(scenario: Any, *sets: str) -> None:
    async def run(universe: Universe) -> None:
        async with broker(universe, sets=sets) as made:
            made.topic("t")
            await scenario(made)

    simulate(run)


def test_a_producer_over_quota_gets_a_throttle_time_and_its_connection_is_muted() -> None:
    async def scenario(made: Broker) -> None:
        limit(made, "producer_byte_rate", BIG, client_id="client")
        throttles = []
        for _ in range(14):
            reply = await reply_to(made, produce(BIG), PRODUCE)
            answer = decoded(ApiKey.PRODUCE, PRODUCE, reply)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert answer.throttle_time_ms == reply.throttle_ms
            throttles.append(reply.throttle_ms)
        assert throttles[0] == 0
        assert throttles[-1] > 3000
        silent = await reply_to(made, produce(BIG, acks=0), PRODUCE)
        assert not silent.parts
        assert silent.throttle_ms > throttles[-1]
        again = await reply_to(made, produce(1), PRODUCE)
        assert again.throttle_ms > throttles[-1], "a client that connects anew owes what it owed before"
        await made.world.clock.sleep(20)
        assert (await reply_to(made, produce(BIG), PRODUCE)).throttle_ms == 0
        assert waits_of(made) == {"producer_byte_rate": 2 + sum(wait > 0 for wait in throttles)}
        limit(made, "producer_byte_rate", None, client_id="client")
        for _ in range(30):
            assert (await reply_to(made, produce(BIG), PRODUCE)).throttle_ms == 0

    play(scenario)


def test_the_quota_of_one_client_does_not_throttle_another() -> None:
    async def scenario(made: Broker) -> None:
        limit(made, "producer_byte_rate", 1.0, client_id="other")
        limit(made, "consumer_byte_rate", 1.0, user="other")
        for _ in range(20):
            assert (await reply_to(made, produce(BIG), PRODUCE)).throttle_ms == 0
            assert (await reply_to(made, fetch(), FETCH)).throttle_ms == 0

    play(scenario)


def test_under_a_byte_quota_produce_requests_keep_their_order() -> None:
    async def scenario(made: Broker) -> None:
        frame = memoryview(b"\0\0\0\x0c")
        assert made.server.dispatcher.may_overtake_wait(frame)
        limit(made, "producer_byte_rate", 1.0, client_id="other")
        assert not made.server.dispatcher.may_overtake_wait(frame)

    play(scenario)


def test_a_consumer_over_quota_gets_no_records_until_its_throttle_time_has_passed() -> None:
    async def scenario(made: Broker) -> None:
        for _ in range(4):
            await reply_to(made, produce(BIG), PRODUCE)
        limit(made, "consumer_byte_rate", BIG, user="ANONYMOUS")
        sizes, waits = [], []
        for _ in range(4):
            reply = await reply_to(made, fetch(), FETCH)
            answer = decoded(ApiKey.FETCH, FETCH, reply)
            assert answer.throttle_time_ms == reply.throttle_ms
            waits.append(reply.throttle_ms)
            sizes.append(sum(len(data.records or b"") for topic in answer.responses for data in topic.partitions))
        assert sizes[0] > 4 * BIG
        assert waits[0] == 0
        assert sizes[2:] == [0, 0]
        assert waits_of(made) == {"consumer_byte_rate": sum(wait > 0 for wait in waits)}
        assert min(waits[2:]) > 0
        await made.world.clock.sleep(waits[-1] / 1000)
        await made.world.clock.sleep(10)
        reply = await reply_to(made, fetch(), FETCH)
        assert reply.throttle_ms == 0
        assert decoded(ApiKey.FETCH, FETCH, reply).responses
        for _ in range(20):  # Another replica has no quota.
            assert (await reply_to(made, fetch(replica_id=2), FETCH)).throttle_ms == 0

    play(scenario)


def test_a_fetch_response_is_no_larger_than_the_quota_window_allows() -> None:
    async def scenario(made: Broker) -> None:
        for _ in range(30):
            await reply_to(made, produce(BIG), PRODUCE)
        limit(made, "consumer_byte_rate", BIG, client_id=None)
        reply = await reply_to(made, fetch(), FETCH)
        records = decoded(ApiKey.FETCH, FETCH, reply).responses[0].partitions[0].records
        assert 5 * BIG < len(records) <= 10 * BIG
        assert reply.throttle_ms == 0

    play(scenario)


def test_a_first_batch_larger_than_the_quota_window_is_returned_whole() -> None:
    async def scenario(made: Broker) -> None:
        await reply_to(made, produce(BIG), PRODUCE)
        limit(made, "consumer_byte_rate", 1000, client_id=None)
        for _ in range(2):
            reply = await reply_to(made, fetch(), FETCH)
            assert len(decoded(ApiKey.FETCH, FETCH, reply).responses[0].partitions[0].records) > BIG
            assert reply.throttle_ms > 30_000
            early = await reply_to(made, fetch(), FETCH)
            assert not decoded(ApiKey.FETCH, FETCH, early).responses
            await made.world.clock.sleep(early.throttle_ms / 1000)

    play(scenario)


class SlowClock:
    """Every look at it takes the node some time."""

    def __init__(self, inner: Any, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds
        self._late = 0.0

    def now(self) -> float:
        self._late += self._seconds
        now: float = self._inner.now()
        return now + self._late

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_the_throttle_time_of_the_request_quota_is_at_most_one_second() -> None:
    async def scenario(made: Broker) -> None:
        made.server.dispatcher._clock = SlowClock(made.world.clock, 0.5)
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        requests = ((produce(10), PRODUCE), (fetch(), FETCH), (MetadataRequest(topics=None), 12), (heartbeat, 4))
        for request, version in requests:
            assert (await reply_to(made, request, version)).throttle_ms == 0
        limit(made, "request_percentage", 1.0, client_id="client")
        for request, version in requests * 2:
            reply = await reply_to(made, request, version)
            answer = decoded(request.API_KEY, version, reply)
            assert answer.throttle_time_ms == reply.throttle_ms == 1000
        assert (await reply_to(made, fetch(replica_id=2), FETCH)).throttle_ms == 0
        waiting = decoded(ApiKey.FETCH, FETCH, await reply_to(made, fetch(wait_ms=500), FETCH))
        assert waiting.throttle_time_ms == 1000
        assert waits_of(made) == {"request_percentage": 2 * len(requests) + 1}
        assert waiting.responses[0].partitions[0].records

    play(scenario)


@pytest.mark.parametrize(
    ("metrics", "code"),
    [
        (METRICS, ErrorCode.NONE),
        (b"\xff", ErrorCode.INVALID_RECORD),
        (bytes(101), ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(101 + HEADER_BYTES_MAX), ErrorCode.TELEMETRY_TOO_LARGE),
    ],
    ids=["taken", "unreadable", "too large", "with too large a frame"],
)
def test_time_for_pushes_of_metrics_counts_in_the_request_quota_of_their_user(metrics: bytes, code: int) -> None:
    async def scenario(made: Broker) -> None:
        told = await made.ask(GetTelemetrySubscriptionsRequest())
        made.server.dispatcher._clock = SlowClock(made.world.clock, 0.5)
        limit(made, "request_percentage", 1.0, user="ANONYMOUS")
        request = PushTelemetryRequest(
            client_instance_id=told.client_instance_id, subscription_id=told.subscription_id, metrics=metrics
        )
        reply = await reply_to(made, request, 0)
        answer = decoded(ApiKey.PUSH_TELEMETRY, 0, reply)
        assert (answer.error_code, answer.throttle_time_ms, reply.throttle_ms) == (code, 1000, 1000)
        asked = await reply_to(made, GetTelemetrySubscriptionsRequest(), 0)
        assert decoded(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, asked).throttle_time_ms == asked.throttle_ms == 1000
        assert waits_of(made) == {"request_percentage": 2}

    play(scenario, "telemetry.max.bytes=100")


def test_time_spent_waiting_does_not_count_for_the_request_quota() -> None:
    async def scenario(made: Broker) -> None:
        limit(made, "request_percentage", 1.0, client_id="client")
        empty = made.topic("empty")
        assert empty
        request = fetch(wait_ms=30_000)
        request.topics[0].topic = "empty"
        assert (await reply_to(made, request, FETCH)).throttle_ms == 0

    play(scenario)


def test_a_throttle_time_from_the_controller_mutes_the_client_of_the_forwarded_request() -> None:
    async def scenario(made: Broker) -> None:
        made.controller.answers[ApiKey.CREATE_TOPICS] = lambda request: CreateTopicsResponse(throttle_time_ms=700)
        reply = await reply_to(made, CreateTopicsRequest(topics=[CreatableTopic(name="n")], timeout_ms=1000), 7)
        assert (reply.throttle_ms, decoded(ApiKey.CREATE_TOPICS, 7, reply).throttle_time_ms) == (700, 700)

    play(scenario)


def test_a_cancelled_throttled_request_ends() -> None:
    async def scenario(made: Broker) -> None:
        limit(made, "request_percentage", 1.0, client_id="client")
        made.topic("quiet")
        request = fetch(wait_ms=30_000)
        request.topics[0].topic = "quiet"
        with trio.move_on_after(1) as scope:
            await reply_to(made, request, FETCH)
        assert scope.cancelled_caught
        assert not len(made.partition("quiet").waiters)

    play(scenario)
