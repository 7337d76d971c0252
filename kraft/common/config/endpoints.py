"""Addresses in the configuration: listeners, quorum voters, host:port."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from kraft.common.config.validators import ADDRESS

PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
_COUNT: Final = re.compile("[0-9]{1,10}")


def host_counts(text: str) -> tuple[dict[str, int], list[str]]:
    """The counts of `host:count,...` by host, and the invalid entries. A count is a number within Kafka's INT."""
    counts: dict[str, int] = {}
    wrong: list[str] = []
    for entry in filter(None, map(str.strip, text.split(","))):
        host, _, count = map(str.strip, entry.rpartition(":"))
        if host and _COUNT.fullmatch(count) and int(count) < 1 << 31:
            counts[host] = int(count)
        else:
            wrong.append(entry)
    return counts, wrong


class Endpoint(NamedTuple):
    """A named listener. An empty `host` means every interface; with `port` 0 the system chooses."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    @property
    def address(self) -> str:
        return join_address(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


class Voter(NamedTuple):
    """One member of a static quorum."""

    node_id: int
    host: str
    port: int


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return join_address(self.host, self.port)


WILDCARD_HOSTS: Final = ("", "0.0.0.0", "::")


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> Address:
    """Parse `host:port`, `[v6]:port`, or `:port` for every interface. Raises ValueError with a message."""
    match = re.fullmatch(ADDRESS, text) or re.fullmatch(r"(?P<host>):(?P<port>[0-9]{1,5})", text)
    if match is None:
        raise ValueError(f"{text!r} is not host:port")
    port = int(match["port"])
    if port > 65535:
        raise ValueError(f"{text!r} has a port above 65535")
    return Address(match["host"].strip("[]"), port)


def parse_listener(text: str, protocols: dict[str, str]) -> Endpoint:
    """Parse `NAME://host:port`; `protocols` maps listener names to security protocols. Raises ValueError with a
    message."""
    name, separator, address = text.partition("://")
    if not separator or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise ValueError(f"{text!r} is not NAME://host:port")
    host, port = parse_address(address)
    name = name.upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise ValueError(f"{text!r}: listener.security.protocol.map has no protocol for the name {name}")
    return Endpoint(name, host, port, protocol)


def parse_protocol_map(entries: tuple[str, ...]) -> dict[str, str]:
    """Parse `NAME:PROTOCOL` pairs. Raises ValueError with a message."""
    protocols: dict[str, str] = {}
    for entry in entries:
        name, separator, protocol = entry.partition(":")
        if not separator or protocol.upper() not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise ValueError(f"{entry!r} is not NAME:PROTOCOL with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
        if name.upper() in protocols:
            raise ValueError(f"the name {name} is mapped twice")
        protocols[name.upper()] = protocol.upper()
    return protocols


def parse_voter(text: str) -> Voter:
    """Parse `id@host:port`, which the key's validator has checked. Raises ValueError for a port out of range."""
    identifier, _, address = text.partition("@")
    return Voter(int(identifier), *parse_address(address))


BOOTSTRAP_PORT: Final = 9092


def bootstrap_addresses(bootstrap: str | Sequence[str]) -> list[tuple[str, int]]:
    """Hosts and ports of `HOST:PORT,..`, or of a list of them; the port is optional, IPv6 addresses are in brackets.
    Raises ValueError for an invalid address, or if there is none."""
    found = []
    for entry in bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap:
        host, separator, port = entry.strip().rpartition(":")
        if not separator or port.endswith("]"):
            host, port = entry.strip(), str(BOOTSTRAP_PORT)
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{entry.strip()!r} is not HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ValueError("no address of a node is given")
    return found
