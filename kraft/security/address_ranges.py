"""Ranges of addresses in CIDR notation, which an access control entry may name instead of a host (KIP-1276)."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_IPV4: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})")
_PREFIX: Final = re.compile(r"[+-]?[0-9]{1,9}")


def is_range(host: str) -> bool:
    """Whether the host of an entry is a range: no address has a slash."""
    return "/" in host


@lru_cache(1024)
def parse_range(text: str) -> IPv4Network | IPv6Network:
    """Parse a range such as `10.0.0.0/8` or `2001:db8::/32`. Bits after the prefix are ignored. Raises ValueError with
    Kafka's words."""
    return _parse_ipv6(text) if ":" in text else _parse_ipv4(text)


def _parse_ipv4(text: str) -> IPv4Network:
    found = _IPV4.fullmatch(text)
    if found is None:
        raise ValueError(f"Could not parse [{text}]")
    *octets, prefix = map(int, found.groups())
    for value, limit in (*((octet, 255) for octet in octets), (prefix, 32)):
        if value > limit:
            raise ValueError(f"Value [{value}] not in range [0,{limit}]")
    return IPv4Network((bytes(octets), prefix), strict=False)


def _parse_ipv6(text: str) -> IPv6Network:
    host, slash, length = text.partition("/")
    if not slash:
        raise ValueError(f"Could not parse [{text}]")
    if _PREFIX.fullmatch(length) is None:
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    prefix = int(length)
    if not 0 <= prefix <= 128:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and 128")
    try:
        address = IPv6Address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError:
        raise ValueError(f"Could not parse [{host}]") from None
    if address.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{host}] - not an IPv6 address")
    return IPv6Network((address.packed, prefix), strict=False)


def is_in_range(host: str, text: str) -> bool:
    """Whether the address `host` lies in the range `text`. False if one of them is neither."""
    try:
        address, network = ip_address(host), parse_range(text)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        # A zone names an interface of this machine and is no part of the address.
        address = address.ipv4_mapped or IPv6Address(address.packed)
    return address in network
