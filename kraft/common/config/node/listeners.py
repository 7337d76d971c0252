"""The sockets that a node opens and advertises, derived from `listeners`, the two listen options,
`advertised.listeners` and the protocol map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraft.common.config.endpoints import WILDCARD_HOSTS, Endpoint, parse_address, parse_listener, parse_protocol_map
from kraft.common.config.node.layers import Setting
from kraft.common.config.types import Value, split_list

DEFAULT_BROKER_ADDRESS: Final = "127.0.0.1:9092"
DEFAULT_CONTROLLER_ADDRESS: Final = "127.0.0.1:9093"

SERVED_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listening(NamedTuple):
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    controller_names: tuple[str, ...]
    inter_broker_name: str
    protocols: Mapping[str, str]
    """Listener names to security protocols, also of listeners that other nodes have."""


def derive_listeners(
    roles: tuple[str, ...],
    values: Mapping[str, Value],
    settings: Mapping[str, Setting],
    host_name: str,
    problems: list[str],
) -> Listening:
    """Derive the listeners. Problems are added to `problems`; the result is then a best guess."""
    return _Derivation(roles, values, settings, host_name, problems).derive()


class _Derivation:
    def __init__(
        self,
        roles: tuple[str, ...],
        values: Mapping[str, Value],
        settings: Mapping[str, Setting],
        host_name: str,
        problems: list[str],
    ) -> None:
        self.roles = roles
        self.values = values
        self.settings = settings
        self.host_name = host_name
        self.problems = problems
        names = values["controller.listener.names"]
        self.controller_names = tuple(name.upper() for name in names) if isinstance(names, tuple) else ("CONTROLLER",)

    def derive(self) -> Listening:
        protocols = self.protocols()
        listeners = self.parse("listeners", self.listener_texts(), protocols)
        listeners = self.replace_by_options(listeners, protocols)
        self.check_listeners(listeners)
        advertised = self.advertised(listeners, protocols)
        return Listening(listeners, advertised, self.controller_names, self.inter_broker_name(listeners), protocols)

    def note(self, key: str, problem: str) -> None:
        origin = self.settings[key].origin if key in self.settings else "default"
        self.problems.append(f"{origin}: {key}: {problem}")

    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener name. As in Kafka, an unmapped controller listener is PLAINTEXT while
        the map is the default one."""
        text = self.values["listener.security.protocol.map"]
        try:
            protocols = parse_protocol_map(split_list(str(text)))
        except ValueError as problem:
            self.note("listener.security.protocol.map", str(problem))
            protocols = {}
        if "listener.security.protocol.map" not in self.settings:
            for name in self.controller_names:
                protocols.setdefault(name, "PLAINTEXT")
        return protocols

    def listener_texts(self) -> tuple[str, ...]:
        """The value of `listeners`, or the node's own default: loopback, one listener for each role."""
        value = self.values["listeners"]
        if "listeners" in self.settings and isinstance(value, tuple):
            return value
        texts = []
        if "broker" in self.roles:
            texts.append(f"PLAINTEXT://{DEFAULT_BROKER_ADDRESS}")
        if "controller" in self.roles:
            texts.append(f"{self.controller_names[0]}://{DEFAULT_CONTROLLER_ADDRESS}")
        return tuple(texts)

    def parse(self, key: str, texts: tuple[str, ...], protocols: dict[str, str]) -> tuple[Endpoint, ...]:
        endpoints = []
        for text in texts:
            try:
                endpoint = parse_listener(text, protocols)
            except ValueError as problem:
                self.note(key, str(problem))
                continue
            if endpoint.security_protocol not in SERVED_PROTOCOLS:
                self.note(
                    key,
                    f"{text!r}: the security protocol {endpoint.security_protocol} is not served yet, only "
                    f"{' and '.join(SERVED_PROTOCOLS)}",
                )
            endpoints.append(endpoint)
        if len({endpoint.name for endpoint in endpoints}) != len(endpoints):
            self.note(key, "a listener name stands there twice")
        return tuple(endpoints)

    def replace_by_options(self, listeners: tuple[Endpoint, ...], protocols: dict[str, str]) -> tuple[Endpoint, ...]:
        """Replace the first broker listener's address by --listen, and the first controller listener's by
        --controller-listen."""
        for key, role, is_controller, fallback in (
            ("kraft.option.listen", "broker", False, "PLAINTEXT"),
            ("kraft.option.controller.listen", "controller", True, self.controller_names[0]),
        ):
            setting = self.settings.get(key)
            if setting is None:
                continue
            if role not in self.roles:
                self.problems.append(f"{setting.origin}: this node has no {role} role, so it has no {role} listener")
                continue
            try:
                host, port = parse_address(setting.text)
            except ValueError as problem:
                self.problems.append(f"{setting.origin}: {problem}")
                continue
            mine = [endpoint for endpoint in listeners if (endpoint.name in self.controller_names) == is_controller]
            if mine:
                listeners = tuple(
                    endpoint._replace(host=host, port=port) if endpoint is mine[0] else endpoint
                    for endpoint in listeners
                )
            else:
                listeners = (*listeners, Endpoint(fallback, host, port, protocols.get(fallback, "PLAINTEXT")))
        return listeners

    def check_listeners(self, listeners: tuple[Endpoint, ...]) -> None:
        names = [endpoint.name for endpoint in listeners]
        controllers = [name for name in names if name in self.controller_names]
        brokers = [name for name in names if name not in self.controller_names]
        if "controller" in self.roles and not controllers:
            self.note(
                "listeners",
                (
                    "a controller needs a listener with one of controller.listener.names "
                    f"({', '.join(self.controller_names)})"
                ),
            )
        if "controller" not in self.roles and controllers:
            self.note("listeners", f"a node without a controller role cannot listen as {', '.join(controllers)}")
        if "broker" in self.roles and not brokers:
            self.note("listeners", "a broker needs a listener that is not a controller's")
        if "broker" not in self.roles and brokers:
            self.note("listeners", f"a node without a broker role cannot listen as {', '.join(brokers)}")
        addresses = [endpoint.address for endpoint in listeners if endpoint.port]
        admin = str(self.values["kraft.admin.listener"])
        for address in dict.fromkeys(addresses):
            if addresses.count(address) > 1:
                self.note("listeners", f"two listeners share the address {address}")
            if address == admin:
                self.note("kraft.admin.listener", f"a Kafka listener has the address {address} already")

    def advertised(self, listeners: tuple[Endpoint, ...], protocols: dict[str, str]) -> tuple[Endpoint, ...]:
        value = self.values["advertised.listeners"]
        given = {
            endpoint.name: endpoint
            for endpoint in self.parse("advertised.listeners", value if isinstance(value, tuple) else (), protocols)
        }
        for endpoint in given.values():
            if endpoint.host in WILDCARD_HOSTS:
                self.note("advertised.listeners", f"{endpoint} is no address that a client could connect to")
            if endpoint.name not in [listener.name for listener in listeners]:
                self.note("advertised.listeners", f"there is no listener {endpoint.name}")
        return tuple(given.get(listener.name) or self.advertise(listener) for listener in listeners)

    def advertise(self, listener: Endpoint) -> Endpoint:
        if listener.host in WILDCARD_HOSTS:
            return listener._replace(host=self.host_name)
        return listener

    def inter_broker_name(self, listeners: tuple[Endpoint, ...]) -> str:
        """The configured name, else the listener named like the protocol between brokers, else the only one."""
        brokers = [endpoint.name for endpoint in listeners if endpoint.name not in self.controller_names]
        name = self.values["inter.broker.listener.name"]
        if isinstance(name, str):
            if "security.inter.broker.protocol" in self.settings:
                self.note(
                    "inter.broker.listener.name", "security.inter.broker.protocol is set as well; one of them is enough"
                )
            if "broker" in self.roles and name.upper() not in brokers:
                self.note("inter.broker.listener.name", f"there is no broker listener {name}")
            return name.upper()
        by_protocol = str(self.values["security.inter.broker.protocol"])
        if by_protocol in brokers or not brokers:
            return by_protocol
        if len(brokers) > 1:
            self.problems.append(
                f"inter.broker.listener.name: which of {', '.join(brokers)} do brokers use among themselves?"
            )
        return brokers[0]
