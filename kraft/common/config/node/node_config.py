"""A node's own configuration as one frozen value.

`load_node_config` turns gathered texts into it or raises ConfigurationError with every problem found. Plain values
are read by Kafka's key (`config.integer("num.partitions")`); what a node is made of - roles, listeners, voters,
directories - is parsed once into attributes. `with_dynamic` gives the view under the dynamic broker configuration of
a metadata image, so that a node holds one current value and swaps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kraft.common.config.definition import UpdateMode
from kraft.common.config.endpoints import Address, Endpoint, Voter
from kraft.common.config.keys.admin_keys import PREFIX
from kraft.common.config.node.format_options import NOTHING_ASKED, FormatOptions
from kraft.common.config.node.layers import Setting
from kraft.common.config.providers import Providers, SecretPlaces
from kraft.common.config.resources import (
    ADMIN_TLS_KEYS,
    BROKER_KEYS,
    TLS_KEYS,
    broker_family,
    broker_key,
    listener_key,
)
from kraft.common.config.types import Value

BROKER = "broker"
CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The whole configuration of one node. Shared freely, never changed."""

    values: Mapping[str, Value]
    """Every broker key with its effective parsed value."""
    settings: Mapping[str, Setting]
    """The configured values with their origin: STATIC_BROKER_CONFIG in DescribeConfigs."""
    warnings: tuple[str, ...] = ()
    """Sentences to log at the start: settings without effect, ignored plugins."""

    roles: tuple[str, ...]
    node_id: int
    rack: str | None
    listeners: tuple[Endpoint, ...]
    """All listeners of this node, of broker and controller, in the configured order."""
    advertised: tuple[Endpoint, ...]
    """The advertised endpoint of each listener. Its port is 0 if the system chooses the listener's port: the bound port
    is then advertised (`advertised_listeners`)."""
    controller_listener_names: tuple[str, ...]
    inter_broker_listener_name: str
    security_protocols: Mapping[str, str]
    """Listener names to security protocols, also of listeners that only other nodes have."""
    log_dirs: tuple[str, ...]
    """Absolute paths."""
    metadata_log_dir: str
    voters: tuple[Voter, ...]
    bootstrap_controllers: tuple[Address, ...]
    admin_address: Address | None
    """The address on which the HTTP admin listens; None if it is off."""
    cluster_id: str | None
    format_requested: bool
    quorum_of_one: bool
    """Whether this node is a controller and the only voter. Such a node may format an empty directory without a
    request."""
    format_options: FormatOptions = NOTHING_ASKED
    provider_texts: Mapping[str, str] = field(default_factory=dict)
    """The values of the keys `config.providers` and `config.providers.*`. They resolve variables in values that are set
    while the node runs."""
    secret_places: SecretPlaces = field(default_factory=SecretPlaces, repr=False)

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles

    @property
    def broker_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in self.listeners if endpoint.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Endpoint, ...]:
        return tuple(endpoint for endpoint in self.listeners if endpoint.name in self.controller_listener_names)

    def advertised_listeners(self, bound_ports: Mapping[str, int]) -> tuple[Endpoint, ...]:
        """The endpoints to register: each advertised one, with the bound port of its listener if none was
        configured."""
        return tuple(
            endpoint if endpoint.port else endpoint._replace(port=bound_ports.get(endpoint.name, 0))
            for endpoint in self.advertised
        )

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def integer(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int), name
        assert not isinstance(value, bool), name
        return value

    def of_listener(self, listener: str, name: str, default: int) -> int:
        """The value of one listener only (`listener.name.<listener>.<key>`), or `default`."""
        key = listener_key(listener, name)
        return self.integer(key) if key in self.values else default

    def tls_values(self, listener: str) -> dict[str, Value]:
        """The `ssl.*` values of a listener: its own, else the general ones."""
        values = {name: self.values.get(listener_key(listener, name), self.values[name]) for name in TLS_KEYS}
        if self.security_protocols.get(listener) == "SASL_SSL":
            # As in Kafka: who logs in needs no certificate, unless its listener says so.
            values["ssl.client.auth"] = self.values.get(listener_key(listener, "ssl.client.auth"), "none")
        return values

    @property
    def admin_is_encrypted(self) -> bool:
        """Whether the HTTP admin uses HTTPS: if any of its TLS keys is set."""
        return any(name in self.settings for name in ADMIN_TLS_KEYS)

    def admin_tls_values(self) -> dict[str, Value]:
        """The TLS keys of the HTTP admin, by the names that they have for listeners."""
        return {name.removeprefix(PREFIX): self.values[name] for name in ADMIN_TLS_KEYS}

    def optional_integer(self, name: str) -> int | None:
        return None if self.values[name] is None else self.integer(name)

    def number(self, name: str) -> float:
        value = self.values[name]
        assert isinstance(value, float | int), name
        assert not isinstance(value, bool), name
        return value

    def flag(self, name: str) -> bool:
        value = self.values[name]
        assert isinstance(value, bool), name
        return value

    def text(self, name: str) -> str:
        value = self.values[name]
        assert isinstance(value, str), name
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.values[name] is None else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        assert isinstance(value, tuple), name
        return value

    def seconds(self, name: str) -> float:
        """The value of a key in milliseconds, as seconds."""
        return self.integer(name) / 1000

    def static_texts(self) -> dict[str, str]:
        return {name: setting.text for name, setting in self.settings.items()}

    def is_provided(self, name: str) -> bool:
        """Whether the configured value comes from a config provider, and must not be shown."""
        return name in self.settings and self.settings[name].is_provided

    def resolve(self, text: str) -> str:
        """`text` with the current values of its config-provider variables. Raises ValueError."""
        return Providers(self.provider_texts, self.secret_places).resolve(text)

    def with_dynamic(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> NodeConfig:
        """This configuration with dynamic values: the broker's own over cluster-wide over static ones. As in Kafka,
        texts that do not parse are ignored."""
        values = dict(self.values)
        for layer in (cluster, broker):
            for name, text in layer.items():
                key = broker_key(name)
                if key is not None and key.update_mode != UpdateMode.READ_ONLY and key.validate(text) is None:
                    values.update(
                        {member: BROKER_KEYS[member].default for member in broker_family(name) if member in BROKER_KEYS}
                    )
                    values[name] = key.parse(text)
        return replace(self, values=values)
