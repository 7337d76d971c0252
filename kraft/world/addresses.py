"""The canonical form of clients' addresses, in which access control entries, limits and quotas name them."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address


@lru_cache(1024)
def address_of(host: str) -> str:
    """The canonical form of an address: IPv4 mapped into IPv6 becomes IPv4, and IPv6 is written as short as possible.
    Any other text stays as it is."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)
