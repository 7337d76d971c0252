"""GetTelemetrySubscriptions and PushTelemetry (KIP-714): clients ask which of their metrics are wanted, and push them.
As in Kafka, no permission is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kraft.common.config.dynamic.client_metrics import subscription_of
from kraft.common.config.resource_type import ResourceType
from kraft.common.errors import ApiError
from kraft.common.ids import uuid_to_text
from kraft.handlers.registry import Handler, RequestContext, between
from kraft.handlers.security.permissions import ANYBODY
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kraft.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kraft.protocol.messages.push_telemetry_response import PushTelemetryResponse
from kraft.protocol.records.compression import CompressionError, decompress
from kraft.telemetry.instances import COMPRESSIONS, Client, ClientInstances
from kraft.telemetry.otlp import InvalidTelemetry, Push, read_push
from kraft.world.turns import in_turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraft.common.config.dynamic.client_metrics import Subscription
    from kraft.common.logging import Logger
    from kraft.handlers.services import BrokerServices
    from kraft.metadata.image.configs_image import ConfigsImage
    from kraft.metadata.metadata_cache import MetadataCache
    from kraft.telemetry.export import ExportQueue
    from kraft.world.ports import Clock

HEADER_BYTES_MAX: Final = 64 << 10
"""Limit of the bytes of a PushTelemetry frame besides the metrics."""
DECOMPRESSED_BYTES_MAX: Final = 4 << 20
"""Limit of a push after decompression; `telemetry.max.bytes` if that is larger."""
STEPS_A_TURN: Final = 20
UNKNOWN: Final = "unknown"


class Export(Protocol):
    """Forwards pushed metrics to a receiver outside of the cluster."""

    queue: ExportQueue

    def offer(self, data: bytes, attributes: Mapping[str, str]) -> None:
        """Queue a push for forwarding, with the attributes of its client. Never waits: if the queue is full, the push
        is dropped."""

    async def run(self) -> None:
        """Send queued pushes until cancelled."""


class Telemetry:
    """The clients of this broker, matched with the subscriptions in the metadata."""

    def __init__(self, telemetry_bytes_max: int, metadata: MetadataCache, clock: Clock, log: Logger) -> None:
        self.instances = ClientInstances(telemetry_bytes_max)
        self._metadata, self._clock, self._log = metadata, clock, log
        self._seen: ConfigsImage | None = None
        self._texts: dict[str, dict[str, str]] = {}
        self.export: Export | None = None
        """Forwards pushed metrics to an OTLP receiver; None if none is configured."""

    def now_ms(self) -> int:
        return int(self._clock.now() * 1000)

    def follow(self) -> None:
        """Apply the subscriptions in the metadata, if they have changed."""
        configs = self._metadata.image.configs
        if configs is self._seen:
            return
        self._seen = configs
        texts = {
            resource.name: dict(found.items())
            for resource, found in configs.resources.items()
            if resource.type == ResourceType.CLIENT_METRICS
        }
        if texts != self._texts:
            self._texts = texts
            self.instances.subscribe_to(self._subscriptions())

    def _subscriptions(self) -> dict[str, Subscription]:
        """The valid subscriptions, by name. One that came from a cluster of Apache Kafka may have a Java pattern that
        RE2 does not support. It is logged and covers no client."""
        found = {}
        for name, texts in self._texts.items():
            try:
                found[name] = subscription_of(texts)
            except ApiError as problem:
                self._log.warning(
                    "a client-metrics subscription covers no client", subscription=name, reason=problem.message
                )
        return found


def _frame_bytes_max(broker: BrokerServices) -> int:
    return broker.telemetry.instances.telemetry_bytes_max + HEADER_BYTES_MAX


GET: Final = Handler(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, between(0, 0), permission=ANYBODY)
PUSH: Final = Handler(
    ApiKey.PUSH_TELEMETRY,
    between(0, 0),
    permission=ANYBODY,
    frame_bytes_max=_frame_bytes_max,
    too_large_code=ErrorCode.TELEMETRY_TOO_LARGE,
)
APIS: Final = (GET, PUSH)


@GET.serve
async def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext, broker: BrokerServices
) -> GetTelemetrySubscriptionsResponse:
    """Return the metrics that the client is to push, and its push interval. Sums are requested with cumulative
    temporality, so that a lost push loses nothing. Kafka requests delta temporality."""
    telemetry = broker.telemetry
    telemetry.follow()
    asked = request.client_instance_id
    instance = telemetry.instances.ask(
        asked, client_of(asked, context), telemetry.now_ms(), lambda: broker.world.random.uuid("telemetry")
    )
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=COMPRESSIONS,
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=telemetry.instances.telemetry_bytes_max,
        delta_temporality=False,
        requested_metrics=instance.metrics,
    )


@PUSH.serve
async def push_telemetry(
    request: PushTelemetryRequest, context: RequestContext, broker: BrokerServices
) -> PushTelemetryResponse:
    """Store and forward the metrics that a client pushes. A push that cannot be read gets INVALID_RECORD, which Kafka
    returns when its receiver plugin fails."""
    telemetry, instances = broker.telemetry, broker.telemetry.instances
    telemetry.follow()
    instance = instances.check_push(
        request.client_instance_id,
        client_of(request.client_instance_id, context),
        telemetry.now_ms(),
        subscription_id=request.subscription_id,
        is_terminating=request.terminating,
        codec=request.compression_type,
        size=len(request.metrics),
    )
    push: Push | None = None
    if len(request.metrics):
        instances.check_budget(instance, telemetry.now_ms())
        room = max(DECOMPRESSED_BYTES_MAX, instances.telemetry_bytes_max)
        data = memoryview(b"")
        try:
            data = memoryview(decompress(request.compression_type, request.metrics, room))
            push = await in_turns(read_push(data), STEPS_A_TURN)
        except (CompressionError, InvalidTelemetry) as problem:
            instances.fail(instance, ErrorCode.INVALID_RECORD)
            raise ApiError(ErrorCode.INVALID_RECORD, f"the push cannot be read: {problem}") from problem
        finally:  # One that does not decompress may have cost as much as the largest.
            instances.budget.spend(len(data) or room)
        if telemetry.export is not None:
            telemetry.export.offer(bytes(data), {**instance.client.texts, "broker_id": str(broker.replicas.node_id)})
    instances.take(instance, push)
    return PushTelemetryResponse()


def client_of(instance_id: bytes, context: RequestContext) -> Client:
    """The selectors of the requesting client, from its connection. As in Kafka, the software name and version are
    `unknown` if the client has not sent them in ApiVersions."""
    name, version = context.peer.client_software
    port = context.peer.port
    texts = {
        "client_instance_id": uuid_to_text(instance_id),
        "client_id": context.client_id,
        "client_software_name": name or UNKNOWN,
        "client_software_version": version or UNKNOWN,
        "client_source_address": context.peer.host,
        "client_source_port": str(port) if port else None,
    }
    return Client({selector: text for selector, text in texts.items() if text is not None})
