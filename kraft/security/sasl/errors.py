"""What a login fails with."""

from __future__ import annotations

from kraft.common.errors import KraftError


class SaslRefused(KraftError):
    """A login that failed. Its text is told to the peer, so it holds no secret."""

    def __init__(self, message: str, user: str = "", reason: str = "") -> None:
        """`user` is the name that the client claims, as far as it said one. `reason` is for the node's log, where it
        is more than the peer is told."""
        super().__init__(message)
        self.user = user
        self.reason = reason or message
