"""Addresses of clients, in the one form in which access control entries, limits and quotas name them."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address


@lru_cache(1024)
def address_of(host: str) -> str:
    """An address as it is named: one of IPv4 that came over IPv6 is itself, one of IPv6 is as short as can be. What is
    no address stays as it is."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)
