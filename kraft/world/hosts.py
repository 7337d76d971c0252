"""Names of hosts."""

from __future__ import annotations


class UnknownHost(OSError):
    """The host's name does not resolve, for good as far as the resolver knows."""
