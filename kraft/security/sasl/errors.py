"""The error of a failed login."""

from __future__ import annotations

from kraft.common.errors import KraftError


class SaslRefused(KraftError):
    """Raised when a login fails. The text is sent to the peer, so it holds no secret."""

    def __init__(self, message: str, user: str = "", reason: str = "") -> None:
        """`user` is the name that the client claims, if known. `reason` is for the node's log, if it says more than the
        text for the peer."""
        super().__init__(message)
        self.user = user
        self.reason = reason or message
