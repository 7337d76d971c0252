"""Faults of key files and logins that stop a node's start."""

from __future__ import annotations

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError
from kraft.server.security.logins import NodeLogins
from kraft.server.security.tls_keys import TlsKeys
from kraft.world.ports import World


def faults_of_keys_and_logins(world: World, config: NodeConfig) -> list[str]:
    """Every problem of the TLS keys and of the logins. Files are read through `world`."""
    problems: list[str] = []
    try:
        TlsKeys(world, config)
    except ConfigurationError as error:
        problems += error.problems
    try:
        NodeLogins(config)
    except ConfigurationError as error:
        problems += error.problems
    return problems
