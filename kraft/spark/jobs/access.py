"""How a job connects to one cluster: the bootstrap servers and the client keys."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kraft.spark.client.wire_security import WireSecurity, security_of

NO_KEYS: Final[Mapping[str, str]] = MappingProxyType({})


class Access(NamedTuple):
    """The bootstrap servers of a cluster, and the client keys for its security. The keys may hold secrets; the repr
    hides them."""

    bootstrap: str
    keys: Mapping[str, str] = NO_KEYS

    def __repr__(self) -> str:
        return f"Access({self.bootstrap}, {len(self.keys)} keys hidden)"

    @property
    def options(self) -> dict[str, str]:
        """The options of a source or sink for this cluster."""
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            **{f"kafka.{name}": value for name, value in self.keys.items()},
        }

    @property
    def security(self) -> WireSecurity:
        """The security of the connections. Raises ValueError."""
        return security_of(self.keys)
