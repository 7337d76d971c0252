"""Logins (SASL) of a node's listeners, and those by which it reaches other nodes, from Kafka's keys.

PLAIN's passwords are in the configuration of a listener, SCRAM's credentials in the metadata.
"""

from __future__ import annotations

from typing import Final

from kraft.common.config.node_config import NodeConfig
from kraft.common.config.resources import listener_key
from kraft.common.errors import ConfigurationError
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.metadata_cache import MetadataCache
from kraft.handlers.sasl import SaslGate
from kraft.network.login_outcome import Report
from kraft.security.delegation_tokens import TokenCredentials, TokenLogin
from kraft.security.sasl.authentication import SERVED_MECHANISMS, SaslSettings
from kraft.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasLogin, parse_jaas
from kraft.security.sasl.plain import PLAIN
from kraft.security.sasl.scram import Credential
from kraft.security.scram_credentials import ScramMechanism
from kraft.world.ports import Login, World

SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_JAAS: Final = "sasl.jaas.config"
_MECHANISMS: Final = "sasl.enabled.mechanisms"
_INTER_BROKER: Final = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER: Final = "sasl.mechanism.controller.protocol"


class NodeLogins:
    """Made when a node starts. Raises ConfigurationError with every problem."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._problems: list[str] = []
        self._servers: dict[str, SaslSettings] = {}
        for endpoint in config.listeners:
            if config.security_protocols.get(endpoint.name) in SASL_PROTOCOLS:
                self._servers[endpoint.name] = self._settings(endpoint.name)
        self._towards: dict[str, Login] = {}
        self._reach(config.inter_broker_listener_name, _INTER_BROKER)
        self._reach(config.controller_listener_names[0], _CONTROLLER)
        if self._problems:
            raise ConfigurationError(list(dict.fromkeys(self._problems)))

    def of_listener(self, name: str) -> SaslSettings | None:
        """None for a listener that asks for no login."""
        return self._servers.get(name)

    def towards(self, name: str) -> Login | None:
        """How this node logs in at other nodes' listeners of that name."""
        return self._towards.get(name)

    def _settings(self, listener: str) -> SaslSettings:
        key = self._key(listener, _MECHANISMS)
        value = self._config.values[key]
        mechanisms = tuple(name.upper() for name in value) if isinstance(value, tuple) else ()
        unknown = [name for name in mechanisms if name not in SERVED_MECHANISMS]
        if unknown or not mechanisms:
            self._problems.append(
                f"{key}: listener {listener} serves {', '.join(SERVED_MECHANISMS)}; "
                f"{', '.join(unknown) or 'an empty list'} is not served"
            )
        for general in (_JAAS, listener_key(listener, _JAAS)):
            if self._config.values.get(general) is not None:
                self._problems.append(
                    f"{general} has no effect: a login is set by {self._jaas_key(listener, '<mechanism>')}"
                )
        users: dict[str, str] = {}
        if PLAIN in mechanisms:
            login = self._jaas(listener, PLAIN)
            users = {} if login is None else login.users
        return SaslSettings(
            mechanisms=mechanisms,
            plain_users=users,
            session_ms_max=self._integer(listener, "connections.max.reauth.ms"),
            failed_delay_ms=self._config.integer("connection.failed.authentication.delay.ms"),
            message_bytes_max=self._integer(listener, "sasl.server.max.receive.size"),
        )

    def _reach(self, listener: str, mechanism_key: str) -> None:
        if self._config.security_protocols.get(listener) not in SASL_PROTOCOLS:
            return
        mechanism = self._config.text(mechanism_key).upper()
        if mechanism not in SERVED_MECHANISMS:
            self._problems.append(
                f"{mechanism_key}={mechanism} is not served; this node reaches the listener {listener} by one of "
                f"{', '.join(SERVED_MECHANISMS)}"
            )
            return
        if mechanism_key == _CONTROLLER and mechanism != PLAIN:
            self._problems.append(
                f"{mechanism_key}={mechanism} cannot work: its credentials are in the metadata log, which a controller "
                f"reads only after it has logged in. Use PLAIN"
            )
            return
        login = self._jaas(listener, mechanism)
        if login is None:
            return
        username, password = login.options.get("username"), login.options.get("password")
        if not username or not password:
            self._problems.append(
                f"{self._jaas_key(listener, mechanism)}: username and password are missing, by which this node logs in "
                "at others"
            )
            return
        self._towards[listener] = Login(mechanism=mechanism, username=username, password=password)

    def _jaas(self, listener: str, mechanism: str) -> JaasLogin | None:
        key = self._jaas_key(listener, mechanism)
        text = self._config.values.get(key)
        module = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
        if not isinstance(text, str):
            self._problems.append(f'{key} is missing: {module} required username="..." password="..." ... ;')
            return None
        try:
            login = parse_jaas(text)
        except ValueError as problem:
            self._problems.append(f"{key}: {problem}")
            return None
        if login.module != module:
            self._problems.append(f"{key}: the login module {login.module} is not known here, only {module}")
            return None
        return login

    def _jaas_key(self, listener: str, mechanism: str) -> str:
        return listener_key(listener, f"{mechanism.lower()}.{_JAAS}")

    def _key(self, listener: str, name: str) -> str:
        own = listener_key(listener, name)
        return own if own in self._config.values else name

    def _integer(self, listener: str, name: str) -> int:
        return self._config.integer(self._key(listener, name))


def gate(
    settings: SaslSettings | None,
    dispatcher: RequestDispatcher,
    metadata: MetadataCache,
    world: World,
    report: Report,
    tokens: TokenCredentials | None,
) -> RequestDispatcher | SaslGate:
    """What serves a listener: its dispatcher, behind a login where one is asked for. `tokens`: those of delegation
    tokens, where there are any."""
    if settings is None:
        return dispatcher

    def credential(user: str, mechanism: int) -> Credential | None:
        return metadata.image.scram.credentials.get((user, mechanism))

    def token(token_id: str, mechanism: ScramMechanism) -> TokenLogin | None:
        if tokens is None:
            return None
        return tokens.login(
            token_id, metadata.image.delegation_tokens.by_id.get(token_id), mechanism, world.clock.wall_ms()
        )

    return SaslGate(settings, credential, dispatcher, world, report, token)
