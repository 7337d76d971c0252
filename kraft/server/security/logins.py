"""SASL logins of a node's listeners, and those with which it connects to other nodes, from Kafka's keys.

PLAIN's passwords are in the configuration of a listener, SCRAM's credentials in the metadata; OAUTHBEARER's tokens are
issued by an authority.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from kraft.common.config.endpoints import Endpoint
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resources import listener_key
from kraft.common.config.types import Value
from kraft.common.errors import ConfigurationError
from kraft.common.logging import Loggers
from kraft.handlers.dispatcher import RequestDispatcher
from kraft.handlers.security.sasl import SaslGate
from kraft.metadata.metadata_cache import MetadataCache
from kraft.network.login_outcome import Report
from kraft.rpc_client.login_tokens import FetchedTokens
from kraft.security.delegation_tokens import TokenCredentials, TokenLogin
from kraft.security.sasl.authentication import SERVED_MECHANISMS, SaslSettings
from kraft.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasLogin, parse_jaas
from kraft.security.sasl.oauthbearer import OAUTHBEARER, OAUTHBEARER_MODULE, VALIDATOR
from kraft.security.sasl.plain import PLAIN
from kraft.security.sasl.plain_users import PlainUsers
from kraft.security.sasl.scram import Credential
from kraft.security.scram_credentials import MECHANISMS, ScramMechanism
from kraft.security.tls import TRUSTSTORE, TlsSettings
from kraft.security.token_request import CLIENT_KEYS, is_usable, read_endpoint
from kraft.security.tokens import PACKAGE_MISSING, TokenRules
from kraft.server.security.token_keys import TokenKeys, TokenSource
from kraft.world.ports import Login, World

SASL_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_JAAS: Final = "sasl.jaas.config"
_MECHANISMS: Final = "sasl.enabled.mechanisms"
_INTER_BROKER: Final = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER: Final = "sasl.mechanism.controller.protocol"
_HANDLER: Final = "sasl.server.callback.handler.class"
_JWKS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_TRUST: Final = ("ssl.truststore.certificates", TRUSTSTORE, "ssl.truststore.password")


class NodeLogins:
    """The logins of a node, read at its start. Raises ConfigurationError with every problem."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._problems: list[str] = []
        self._servers: dict[str, SaslSettings] = {}
        self.token_sources: dict[str, TokenSource] = {}
        """Sources of token keys, by listener."""
        self.tokens: list[FetchedTokens] = []
        """Tokens for this node's own logins."""
        self._plain_users: dict[str, PlainUsers] = {}
        for endpoint in config.listeners:
            if config.security_protocols.get(endpoint.name) in SASL_PROTOCOLS:
                self._servers[endpoint.name] = self._settings(endpoint.name)
        self._towards: dict[str, Login] = {}
        self._reach(config.inter_broker_listener_name, _INTER_BROKER)
        self._reach(config.controller_listener_names[0], _CONTROLLER)
        if self._problems:
            raise ConfigurationError(list(dict.fromkeys(self._problems)))

    def of_listener(self, name: str) -> SaslSettings | None:
        """The SASL settings of a listener; None for a listener without SASL."""
        return self._servers.get(name)

    def plain_users(self, listeners: Iterable[Endpoint]) -> dict[str, PlainUsers]:
        """The users of PLAIN by listener. Listeners without PLAIN users are absent. The users may change while the node
        runs."""
        return {each.name: self._plain_users[each.name] for each in listeners if each.name in self._plain_users}

    def token_keys(self, world: World, listeners: Iterable[Endpoint], loggers: Loggers) -> TokenKeys:
        """The keys that verify tokens, for those of the listeners that accept tokens."""
        names = [each.name for each in listeners if each.name in self.token_sources]
        return TokenKeys(world, {name: self.token_sources[name] for name in names}, loggers.get("tokens"))

    def towards(self, name: str) -> Login | None:
        """The login of this node at other nodes' listeners of that name."""
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
        if OAUTHBEARER in mechanisms:
            self._take_tokens(listener)
        return SaslSettings(
            mechanisms=mechanisms,
            plain_users=self._plain_users.setdefault(listener, PlainUsers(users)),
            session_ms_max=self._integer(listener, "connections.max.reauth.ms"),
            failed_delay_ms=self._config.integer("connection.failed.authentication.delay.ms"),
            message_bytes_max=self._integer(listener, "sasl.server.max.receive.size"),
        )

    def _take_tokens(self, listener: str) -> None:
        """Read how a listener verifies tokens. A setting that is missing or wrong is added to the problems."""
        if find_spec("jwt") is None or find_spec("cryptography") is None:
            self._problems.append(PACKAGE_MISSING)
        self._check_handler(listener)
        jaas_key = self._jaas_key(listener, OAUTHBEARER)
        if self._config.values.get(jaas_key) is not None:
            login = self._jaas(listener, OAUTHBEARER)
            if login is not None and login.options and not self._is_reached_by_tokens(listener):
                self._problems.append(f"{jaas_key}: options have no effect; {OAUTHBEARER_MODULE} required ; is enough")
        url = self._of_tokens(listener, _JWKS)
        if not isinstance(url, str) or not is_usable(url):
            self._problems.append(
                f"{listener_key(listener, _JWKS)} must be the URL of the authority's keys, which verify tokens: "
                "https://..., http://... or file:///..."
            )
            return
        issuer = self._of_tokens(listener, "sasl.oauthbearer.expected.issuer")
        audiences = self._of_tokens(listener, "sasl.oauthbearer.expected.audience")
        refresh = self._number_of_tokens(listener, "sasl.oauthbearer.jwks.endpoint.refresh.ms")
        retry = self._number_of_tokens(listener, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")
        retry_max = self._number_of_tokens(listener, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")
        self.token_sources[listener] = TokenSource(
            url=url,
            rules=TokenRules(
                issuer=issuer if isinstance(issuer, str) else None,
                audiences=audiences if isinstance(audiences, tuple) else (),
                clock_skew_seconds=self._number_of_tokens(listener, "sasl.oauthbearer.clock.skew.seconds"),
                subject_claim=str(self._of_tokens(listener, "sasl.oauthbearer.sub.claim.name")),
                scope_claim=str(self._of_tokens(listener, "sasl.oauthbearer.scope.claim.name")),
            ),
            refresh_seconds=max(1, refresh / 1000),
            retry_seconds=max(0.1, retry / 1000),
            retry_seconds_max=max(0.1, retry_max / 1000),
            tls=self.trust,
        )

    @property
    def trust(self) -> TlsSettings:
        """The authorities that this node trusts as a client of other services."""
        return TlsSettings(values=self._trust, is_server=False)

    @property
    def _trust(self) -> dict[str, Value]:
        return {name: self._config.values[name] for name in _TRUST}

    def _check_handler(self, listener: str) -> None:
        key = listener_key(listener, f"{OAUTHBEARER.lower()}.{_HANDLER}")
        handler = self._config.values.get(key)
        if handler is None:
            self._problems.append(
                f"{key}={VALIDATOR} is missing. Without it Kafka accepts unsigned tokens "
                "(OAuthBearerUnsecured), in which a client may claim any name; kraft rejects them"
            )
        elif handler != VALIDATOR:
            self._problems.append(
                f"{key}: only {VALIDATOR} is supported, which verifies signed tokens; unsigned ones "
                "(OAuthBearerUnsecured) are rejected"
            )

    def _of_tokens(self, listener: str, name: str) -> Value:
        """The value of an OAUTHBEARER setting: for the mechanism on the listener, for the listener, or for all."""
        keys = (listener_key(listener, f"{OAUTHBEARER.lower()}.{name}"), listener_key(listener, name), name)
        return next(self._config.values[key] for key in keys if key in self._config.values)

    def _number_of_tokens(self, listener: str, name: str) -> int:
        value = self._of_tokens(listener, name)
        assert isinstance(value, int), name
        return value

    def _reach(self, listener: str, mechanism_key: str) -> None:
        if self._config.security_protocols.get(listener) not in SASL_PROTOCOLS:
            return
        mechanism = self._config.text(mechanism_key).upper()
        if mechanism not in SERVED_MECHANISMS:
            self._problems.append(
                f"{mechanism_key}={mechanism} is not supported; this node logs in to the listener {listener} "
                "with one of "
                f"{', '.join(SERVED_MECHANISMS)}"
            )
            return
        if mechanism_key == _CONTROLLER and mechanism in MECHANISMS:
            self._problems.append(
                f"{mechanism_key}={mechanism} cannot work: its credentials are in the metadata log, which a controller "
                "reads only after it has logged in. Use PLAIN or OAUTHBEARER"
            )
            return
        if mechanism == OAUTHBEARER:
            self._reach_by_tokens(listener)
            return
        login = self._jaas(listener, mechanism)
        if login is None:
            return
        username, password = login.options.get("username"), login.options.get("password")
        if not username or not password:
            self._problems.append(
                f"{self._jaas_key(listener, mechanism)}: username and password are missing: this node needs "
                "them to log in to other nodes"
            )
            return
        self._towards[listener] = Login(mechanism=mechanism, username=username, password=password)

    def _is_reached_by_tokens(self, listener: str) -> bool:
        """Whether this node logs in at other nodes' listeners of that name by OAUTHBEARER."""
        reached = {
            self._config.inter_broker_listener_name: _INTER_BROKER,
            self._config.controller_listener_names[0]: _CONTROLLER,
        }
        return listener in reached and self._config.text(reached[listener]).upper() == OAUTHBEARER

    def _reach_by_tokens(self, listener: str) -> None:
        """Read how this node gets the tokens for its logins at other nodes. A setting that is missing or wrong is added
        to the problems."""
        options: Mapping[str, str] = {}
        if self._config.values.get(self._jaas_key(listener, OAUTHBEARER)) is not None:
            login = self._jaas(listener, OAUTHBEARER)
            options = {} if login is None else login.options

        def text(name: str) -> str | None:
            value = self._of_tokens(listener, name) if name in CLIENT_KEYS else None
            return None if value is None else str(value)

        try:
            endpoint = read_endpoint(text, options, self._trust)
        except ValueError as problem:
            self._problems.append(f"listener {listener}, with which this node logs in to other nodes: {problem}")
            return
        known = [tokens for tokens in self.tokens if tokens.endpoint == endpoint]
        tokens = known[0] if known else FetchedTokens(endpoint)
        if not known:
            self.tokens.append(tokens)
        self._towards[listener] = Login(mechanism=OAUTHBEARER, username=endpoint.client_id, tokens=tokens)

    def _jaas(self, listener: str, mechanism: str) -> JaasLogin | None:
        key = self._jaas_key(listener, mechanism)
        text = self._config.values.get(key)
        module = {PLAIN: PLAIN_MODULE, OAUTHBEARER: OAUTHBEARER_MODULE}.get(mechanism, SCRAM_MODULE)
        if not isinstance(text, str):
            self._problems.append(f'{key} is missing: {module} required username="..." password="..." ... ;')
            return None
        try:
            login = parse_jaas(text)
        except ValueError as problem:
            self._problems.append(f"{key}: {problem}")
            return None
        if login.module != module:
            self._problems.append(f"{key}: the login module {login.module} is not supported, only {module}")
            return None
        return login

    def _jaas_key(self, listener: str, mechanism: str) -> str:
        return listener_key(listener, f"{mechanism.lower()}.{_JAAS}")

    def _key(self, listener: str, name: str) -> str:
        own = listener_key(listener, name)
        return own if own in self._config.values else name

    def _integer(self, listener: str, name: str) -> int:
        return self._config.integer(self._key(listener, name))


def with_tokens(settings: SaslSettings | None, listener: str, tokens: TokenKeys | None) -> SaslSettings | None:
    """A listener's settings, with the check of its tokens."""
    if settings is None or tokens is None:
        return settings
    return replace(settings, token_check=tokens.check_of(listener))


def gate(
    settings: SaslSettings | None,
    dispatcher: RequestDispatcher,
    metadata: MetadataCache,
    world: World,
    report: Report,
    tokens: TokenCredentials | None,
) -> RequestDispatcher | SaslGate:
    """The dispatcher of a listener, behind authentication if the listener requires it. `tokens` are the delegation
    tokens, if they are enabled."""
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
