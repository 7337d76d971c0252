"""The object store of a node's tiered storage. It is a module of its own so that nodes without tiered storage load none
of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft.common.errors import ConfigurationError

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig
    from kraft.world.ports import ObjectStore, World

STORE_SECONDS_MAX: Final = 30.0
"""Timeout of one request to the store."""


def open_store(world: World, config: NodeConfig) -> ObjectStore | None:
    """Open the object store; None if tiered storage is disabled. Raises ConfigurationError."""
    if not config.flag("remote.log.storage.system.enable"):
        return None
    try:
        return world.objects.open(config.text("kraft.remote.storage.uri"), timeout_seconds=STORE_SECONDS_MAX)
    except ValueError as problem:
        raise ConfigurationError([f"kraft.remote.storage.uri: {problem}"]) from problem
