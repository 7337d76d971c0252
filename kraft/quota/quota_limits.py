"""The limits of client quotas, and the clients that each applies to."""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.metadata.image.client_quotas_image import ClientQuotasImage
from kraft.metadata.quota_keys import CLIENT_ID, CONNECTION_CREATION_RATE, IP, USER

_Part = tuple[bool, str] | None
"""One part of an entity: None if it is absent, else (whether it has a name, name)."""
_DEFAULT: Final = (False, "")


class Share(NamedTuple):
    """The clients whose use is counted together: those of one user, of one client id, or of both. "" means all."""

    user: str
    client_id: str


class QuotaLimits:
    """The limits of one key for users and client ids, from one image."""

    __slots__ = ("_limits",)

    def __init__(self, image: ClientQuotasImage, key: str) -> None:
        self._limits: dict[tuple[_Part, _Part], float] = {}
        for entity, quotas in image.entities.items():
            limit = quotas.get(key)
            if limit is None or not limit > 0:  # What is in the log and cannot be kept to is passed over.
                continue
            parts: dict[str, _Part] = {kind: (is_named, name) for kind, is_named, name in entity}
            if IP not in parts:
                self._limits[parts.get(USER), parts.get(CLIENT_ID)] = limit

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, user: str, client_id: str) -> tuple[Share, float] | None:
        """The share and the limit of the most specific entity; None without a limit. The eight levels are tried in
        Kafka's order (KIP-55)."""
        limits, named_user, named_client = self._limits, (True, user), (True, client_id)
        for user_part, client_part in (
            (named_user, named_client),
            (named_user, _DEFAULT),
            (named_user, None),
            (_DEFAULT, named_client),
            (_DEFAULT, _DEFAULT),
            (_DEFAULT, None),
            (None, named_client),
            (None, _DEFAULT),
        ):
            limit = limits.get((user_part, client_part))
            if limit is not None:
                return Share(user if user_part else "", client_id if client_part else ""), limit
        return None


class AddressLimits:
    """The limits of connections from an address (KIP-612), from one image."""

    __slots__ = ("_by_address", "_default")

    def __init__(self, image: ClientQuotasImage) -> None:
        self._by_address: dict[str, float] = {}
        self._default: float | None = None
        for entity, quotas in image.entities.items():
            limit = quotas.get(CONNECTION_CREATION_RATE)
            if limit is None or not limit > 0 or len(entity) != 1 or entity[0][0] != IP:
                continue
            _, is_named, name = entity[0]
            if is_named:
                self._by_address[name] = limit
            else:
                self._default = limit

    def __bool__(self) -> bool:
        return bool(self._by_address) or self._default is not None

    def find(self, address: str) -> float | None:
        return self._by_address.get(address, self._default)
