"""The access to nodes: open to all, or only with a password over TLS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from jepsen.node import CLIENT_PORT, CONTROLLER_PORT
from kraft.testing.cluster_security import ADMIN, ClusterSecurity
from kraft.world.ports import Login, Tls

COMMON: Final[Mapping[str, Any]] = {
    "log_level": 0,
    "socket.timeout.ms": 4000,
    "socket.connection.setup.timeout.ms": 2000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "metadata.max.age.ms": 3000,
    "topic.metadata.refresh.fast.interval.ms": 100,
}
"""librdkafka's settings of all clients."""
OPEN: Final = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
SESSION_MS: Final = 5000
"""Short, so that sessions expire and start again during faults."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The connection settings of clients, by the names of each library."""

    librdkafka: Mapping[str, Any]
    aiokafka: Mapping[str, Any]


def open_servers(bootstrap: str) -> Servers:
    """The settings for nodes that are open to all."""
    return Servers({**COMMON, "bootstrap.servers": bootstrap}, {"bootstrap_servers": bootstrap})


class Access:
    """The security of a cluster. With `secured`: SASL_SSL everywhere, an authorizer, and sessions of five seconds.
    `directory` gets keys and certificates."""

    def __init__(self, directory: Path, *, secured: bool) -> None:
        self._security = ClusterSecurity("sasl_ssl", authorizer=True) if secured else None
        if self._security is not None:
            self._security.place(directory)

    @property
    def listener(self) -> str:
        """The name of the brokers' listener."""
        return "PLAINTEXT" if self._security is None else "CLIENTS"

    def settings(self) -> dict[str, str]:
        """The security settings of nodes."""
        if self._security is None:
            return dict(OPEN)
        return {
            **OPEN,
            **self._security.listeners(CLIENT_PORT, CONTROLLER_PORT),
            # Nodes are known by addresses for which nobody issues certificates.
            "ssl.endpoint.identification.algorithm": "",
            "connections.max.reauth.ms": str(SESSION_MS),
        }

    def servers(self, bootstrap: str) -> Servers:
        """The connection settings of clients."""
        if self._security is None:
            return open_servers(bootstrap)
        librdkafka = self._security.client_settings("librdkafka", bootstrap, ADMIN)
        aiokafka = self._security.client_settings("aiokafka", bootstrap, ADMIN)
        aiokafka["ssl_context"].check_hostname = False
        return Servers({**COMMON, **librdkafka, "ssl.endpoint.identification.algorithm": "none"}, aiokafka)

    @property
    def tls(self) -> Tls | None:
        """The TLS settings of the harness's own requests."""
        found = None if self._security is None else self._security.tls
        return None if found is None else replace(found, check_host=False)

    @property
    def login(self) -> Login | None:
        """The login of the harness's own requests."""
        return None if self._security is None else self._security.login
