"""Client metrics over a whole broker: what clients are asked for, which pushes are taken, and where they are seen."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.config.resource_type import ResourceType
from kraft.common.ids import ZERO_UUID
from kraft.handlers import telemetry as module
from kraft.handlers.all_handlers import broker_registry
from kraft.metadata.records.config_record import ConfigRecord
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kraft.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from kraft.server.metrics.client_families import client_families
from kraft.telemetry import budget
from kraft.world.simulated import Universe
from tests.unit.server.brokers import Broker, broker, simulate
from tests.unit.telemetry.pushes import gauge, part, point, push, total

METRICS = push(
    gauge("org.apache.kafka.producer.node.request.latency.avg", point(2.5, {"node.id": "1"})),
    total("org.apache.kafka.producer.record.error.total", point(3)),
)


def subscribe(made: Broker, **configs: str) -> None:
    made.publish(
        *(
            ConfigRecord(
                resource_type=ResourceType.CLIENT_METRICS, resource_name="s", name=key.replace("_", "."), value=value
            )
            for key, value in configs.items()
        )
    )


async def pushed(made: Broker, told: Any, metrics: bytes, codec: int = 0, **fields: Any) -> int:
    request = PushTelemetryRequest(
        client_instance_id=told.client_instance_id,
        subscription_id=told.subscription_id,
        compression_type=codec,
        metrics=metrics,
        **fields,
    )
    return int((await made.ask(request)).error_code)


async def asked(made: Broker, instance_id: bytes = ZERO_UUID) -> Any:
    return await made.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id))


@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_client_asks_pushes_and_is_seen(codec: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            made.peer.client_software = ("librdkafka", "2.10")
            subscribe(made, metrics="*", interval_ms="1000", match="client_software_name=lib.*")
            told = await asked(made)
            assert (told.error_code, told.requested_metrics, told.push_interval_ms) == (0, ["*"], 1000)
            assert told.client_instance_id != ZERO_UUID
            assert not told.delta_temporality
            assert set(told.accepted_compression_types) == {GZIP, SNAPPY, LZ4, ZSTD}
            assert await pushed(made, told, compress(codec, METRICS) if codec else METRICS, codec) == 0
            telemetry = made.server.services.telemetry
            [instance] = telemetry.instances.live(telemetry.now_ms())
            assert (instance.summary.latency_ms, instance.summary.errors, instance.pushes) == (2.5, 3.0, 1)
            found = {each.name: each for each in await client_families([instance])}
            latency = found["kraft_client_producer_node_request_latency_avg"]
            assert (latency.kind, latency.labels) == ("gauge", ("client_id", "node_id"))
            assert latency.read is not None
            assert list(latency.read()) == [(("client", "1"), 2.5)]
            assert found["kraft_client_producer_record_error_total"].kind == "counter"

    simulate(play)


@pytest.mark.parametrize("selector", ["client_software_name", "client_software_version"])
def test_the_software_of_a_client_that_does_not_report_it_is_unknown(selector: str) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            subscribe(made, metrics="a.b", match=f"{selector}=unknown")
            assert (await asked(made)).requested_metrics == ["a.b"]
            made.peer.client_software = ("librdkafka", "2.10")
            assert (await asked(made)).requested_metrics == []

    simulate(play)


def test_a_client_that_no_subscription_covers_is_asked_for_nothing() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            told = await asked(made)
            assert (told.error_code, told.requested_metrics, told.push_interval_ms) == (0, [], 300_000)

    simulate(play)


@pytest.mark.parametrize("metrics", [b"\xff", b"\x0b", b"\x0a\x09x"])
@pytest.mark.parametrize("codec", [0, GZIP, ZSTD])
def test_a_push_that_cannot_be_read_is_refused_and_counted(metrics: bytes, codec: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            assert await pushed(made, await asked(made), metrics, codec) == ErrorCode.INVALID_RECORD
            assert made.server.services.telemetry.instances.refused == 1

    simulate(play)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_push_that_decompresses_to_too_much_is_refused(codec: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            bomb = compress(codec, part(15, bytes(module.DECOMPRESSED_BYTES_MAX)))
            assert await pushed(made, await asked(made), bomb, codec) == ErrorCode.INVALID_RECORD

    simulate(play)


@pytest.mark.parametrize("size", [101, 100 + module.HEADER_BYTES_MAX])
def test_a_push_above_telemetry_max_bytes_is_too_large_whatever_its_frame(size: int) -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=["telemetry.max.bytes=100"]) as made:
            told = await asked(made)
            assert told.telemetry_max_bytes == 100
            assert await pushed(made, told, bytes(size)) == ErrorCode.TELEMETRY_TOO_LARGE

    simulate(play)


def test_a_push_that_is_taken_is_forwarded_with_its_client_and_a_refused_one_is_not() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe, sets=["kraft.telemetry.otlp.endpoint=http://nowhere:4318/v1/metrics"]) as made:
            export = made.server.services.telemetry.export
            assert export is not None
            told = await asked(made)
            assert await pushed(made, told, compress(GZIP, METRICS), GZIP) == 0
            assert await pushed(made, told, METRICS) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            [waiting] = export.queue.take()
            assert waiting.data == METRICS
            assert (waiting.attributes["client_id"], waiting.attributes["broker_id"]) == ("client", "1")

    simulate(play)


def test_pushes_of_all_clients_together_are_bounded_by_bytes_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "BYTES_A_SECOND", len(METRICS))
    monkeypatch.setattr(budget, "BYTES_AT_ONCE", 2 * len(METRICS))

    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            instances = made.server.services.telemetry.instances
            clients = [await asked(made) for _ in range(4)]
            codes = [await pushed(made, each, compress(GZIP, METRICS), GZIP) for each in clients[:3]]
            assert codes == [0, 0, ErrorCode.THROTTLING_QUOTA_EXCEEDED], "bytes count as they are after decompression"
            assert (instances.refused, instances.over_budget) == (1, 1)
            await universe.world_for("a").clock.sleep(1)
            assert await pushed(made, clients[3], METRICS) == 0

    simulate(play)


def test_nothing_is_forwarded_by_default() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            assert made.server.services.telemetry.export is None
            assert await pushed(made, await asked(made), METRICS) == 0

    simulate(play)


def test_a_changed_subscription_makes_the_client_ask_again() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            told = await asked(made)
            subscribe(made, metrics="a.")
            assert await pushed(made, told, METRICS) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
            again = await asked(made, told.client_instance_id)
            assert (again.error_code, again.requested_metrics) == (0, ["a."])
            made.topic("t", retention_ms="5")
            assert await pushed(made, again, METRICS) == ErrorCode.THROTTLING_QUOTA_EXCEEDED, "it is too early for it"

    simulate(play)


def test_a_subscription_with_an_invalid_pattern_matches_no_client_and_is_logged() -> None:
    async def play(universe: Universe) -> None:
        async with broker(universe) as made:
            subscribe(made, metrics="*", match="client_id=(?=c)client")
            assert (await asked(made)).requested_metrics == []
            assert [event for event in made.events if "covers no client" in str(event)]

    simulate(play)


def test_client_metrics_are_not_advertised_when_they_are_off() -> None:
    keys = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert keys <= {each.api_key for each in broker_registry().api_versions}
    assert not keys & {each.api_key for each in broker_registry(serves_telemetry=False).api_versions}

    async def play(universe: Universe) -> None:
        async with broker(universe, sets=["kraft.telemetry.enable=false"]) as made:
            assert not keys & {each.api_key for each in made.server.services.registry.api_versions}

    simulate(play)
