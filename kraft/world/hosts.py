"""What can be wrong with a host, beside its being away."""

from __future__ import annotations


class UnknownHost(OSError):
    """The host's name does not resolve, for good as far as the resolver knows."""


class NoTlsAgreement(ConnectionAbortedError):
    """The two sides do not come to terms on TLS: one does not trust the other's certificate, or they share no version
    or cipher suite. Trying again does not help."""
