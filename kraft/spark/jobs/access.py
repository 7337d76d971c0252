"""How a job reaches one cluster: where its nodes are, and by which client keys."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kraft.spark.client.wire_security import WireSecurity, security_of

NO_KEYS: Final[Mapping[str, str]] = MappingProxyType({})


class Access(NamedTuple):
    """`keys` are client keys of security; they may hold secrets, and the repr hides them."""

    bootstrap: str
    keys: Mapping[str, str] = NO_KEYS

    def __repr__(self) -> str:
        return f"Access({self.bootstrap}, {len(self.keys)} keys hidden)"

    @property
    def options(self) -> dict[str, str]:
        """The options of the source and the sink."""
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            **{f"kafka.{name}": value for name, value in self.keys.items()},
        }

    @property
    def security(self) -> WireSecurity:
        """Raises ValueError."""
        return security_of(self.keys)
