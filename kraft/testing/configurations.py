"""The configurations of a `LocalCluster`'s nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kraft.common.config.node.internal_topics import internal_topic_settings
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.testing.cluster_security import ClusterSecurity
from kraft.testing.ports import HOST, free_ports
from kraft.testing.reserve import RESERVE_BYTES, RESERVE_KEY


def configurations(
    nodes: Iterable[int], directory: Path, settings: Mapping[str, str], security: ClusterSecurity
) -> dict[int, NodeConfig]:
    """Make one configuration for each node: static voters on free loopback ports, keys in `directory`/keys. Raises
    ConfigurationError for invalid `settings`, OSError."""
    security.place(directory / "keys")
    nodes = tuple(nodes)
    ports = iter(free_ports(2 * len(nodes)))
    addresses = {node: (next(ports), next(ports)) for node in nodes}
    voters = ",".join(f"{node}@{HOST}:{controller}" for node, (_, controller) in addresses.items())
    return {
        node: load_node_config(
            sets=[
                f"{key}={value}"
                for key, value in {
                    "node.id": str(node),
                    "log.dirs": str(directory / str(node)),
                    "controller.quorum.voters": voters,
                    **security.listeners(broker, controller),
                    "kraft.format": "true",
                    "kraft.cluster.id": "bG9jYWwta3JhZnQtdGVzdA",
                    "group.initial.rebalance.delay.ms": "0",
                    RESERVE_KEY: str(RESERVE_BYTES),
                    **internal_topic_settings(len(nodes)),
                    **settings,
                }.items()
            ]
        )
        for node, (broker, controller) in addresses.items()
    }
