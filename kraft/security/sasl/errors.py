"""What a login fails with."""

from __future__ import annotations

from kraft.common.errors import KraftError


class SaslRefused(KraftError):
    """A login that failed. Its text is told to the peer, so it holds no secret."""
