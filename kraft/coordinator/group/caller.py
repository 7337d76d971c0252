"""The caller of a group request."""

from __future__ import annotations

from typing import Protocol


class Caller(Protocol):
    """The sender of a group request, implemented by the request context. `client_host` is what Kafka shows for a
    member: the address with a leading slash, "/127.0.0.1"."""

    @property
    def api_version(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...
