"""Builds the parts of a broker that receive and export the metrics of clients (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.handlers.telemetry import Telemetry

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.common.logging import Loggers
    from kraft.metadata.metadata_cache import MetadataCache
    from kraft.security.tls import TlsSettings
    from kraft.world.ports import World


def open_telemetry(
    world: World, config: NodeConfig, metadata: MetadataCache, trust: TlsSettings, loggers: Loggers
) -> Telemetry:
    """The receiver of the metrics of a broker's clients. With kraft.telemetry.otlp.endpoint it exports them too.
    `trust` has the authorities for its https."""
    log = loggers.get("telemetry")
    telemetry = Telemetry(config.integer("telemetry.max.bytes"), metadata, world.clock, log)
    endpoint = config.text("kraft.telemetry.otlp.endpoint")
    if endpoint:
        from kraft.server.client_metrics_export import ClientMetricsExport  # Most nodes never need an HTTP client.

        telemetry.export = ClientMetricsExport(world, endpoint, trust, log)
    return telemetry
