"""Permanent errors in connecting to a host."""

from __future__ import annotations


class UnknownHost(OSError):
    """Raised if the host's name does not resolve, permanently as far as the resolver knows."""


class TlsHandshakeFailed(ConnectionAbortedError):
    """Raised if the TLS handshake fails: one side does not trust the other's certificate, or they share no version or
    cipher suite. A retry does not help."""
