"""Parse Kafka's client keys for the connection to nodes: security.protocol, sasl.jaas.config, ssl.truststore.location
and others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kraft.common.config.resources import TLS_KEYS_WITHOUT_EFFECT
from kraft.common.errors import ConfigurationError
from kraft.rpc_client.client_key_names import misspelt
from kraft.security.sasl.authentication import SERVED_MECHANISMS
from kraft.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from kraft.security.sasl.oauthbearer import OAUTHBEARER, OAUTHBEARER_MODULE
from kraft.security.sasl.plain import PLAIN
from kraft.security.tls import KEYS, STORE_BYTES_MAX, TlsProblem, TlsSettings, load_tls
from kraft.security.token_request import CLIENT_KEYS, read_endpoint
from kraft.world.ports import Login, Tls

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_SASL_KEYS: Final = (_MECHANISM, _JAAS, *CLIENT_KEYS, "sasl.oauthbearer.header.urlencode")


class ClientSecurity(NamedTuple):
    """The security of a client's connections: TLS and login, each optional."""

    tls: Tls | None = None
    login: Login | None = None


def security_of(path: str, values: Mapping[str, str]) -> ClientSecurity:
    """Parse the client keys of `path`. Raises ConfigurationError with every problem."""
    problems = [
        f"{path}: {key} is not served yet" for key in values if key.startswith("sasl.") and key not in _SASL_KEYS
    ]
    problems += [
        f"{path}: unknown key {key}: did you mean {meant}?"
        for key in values
        if not key.startswith(("ssl.", "sasl.")) and (meant := misspelt(key)) is not None
    ]
    known = (*KEYS, *TLS_KEYS_WITHOUT_EFFECT)
    problems += [f"{path}: unknown key {key}" for key in values if key.startswith("ssl.") and key not in known]
    protocol = values.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in _PROTOCOLS:
        problems.append(f"{path}: security.protocol={protocol} is not one of {', '.join(_PROTOCOLS)}")
    tls = login = None
    if protocol in ("SSL", "SASL_SSL"):
        try:
            tls = load_tls(TlsSettings(values=values, is_server=False, prefix=f"{path}: "), _read)
        except TlsProblem as problem:
            problems.append(str(problem))
    elif any(key in KEYS for key in values):
        problems.append(f"{path}: there are ssl. keys, but security.protocol is {protocol}: SSL or SASL_SSL is meant")
    if protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        try:
            login = _login(values)
        except ValueError as problem:
            problems.append(f"{path}: {problem}")
    elif any(key in values for key in _SASL_KEYS):
        problems.append(f"{path}: there are sasl. keys, but security.protocol is {protocol}: SASL_SSL is meant")
    if problems:
        raise ConfigurationError(problems)
    return ClientSecurity(tls, login)


def _login(values: Mapping[str, str]) -> Login:
    """Parse the login. Raises ValueError with a full sentence."""
    mechanism = values.get(_MECHANISM, "GSSAPI").strip().upper()
    if mechanism not in SERVED_MECHANISMS:
        raise ValueError(f"{_MECHANISM}={mechanism} is not served, only {', '.join(SERVED_MECHANISMS)}")
    module = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
    if mechanism == OAUTHBEARER:
        return _token_login(values)
    if _JAAS not in values:
        raise ValueError(f'{_JAAS} is missing: {module} required username="..." password="...";')
    try:
        jaas = parse_jaas(values[_JAAS])
    except ValueError as problem:
        raise ValueError(f"{_JAAS}: {problem}") from problem
    username, password = jaas.options.get("username"), jaas.options.get("password")
    if jaas.module != module or not username or not password:
        raise ValueError(f'{_JAAS}: {module} required username="..." password="..."; is wanted for {mechanism}')
    return Login(
        mechanism=mechanism, username=username, password=password, by_token=jaas.by_token and mechanism != PLAIN
    )


def _token_login(values: Mapping[str, str]) -> Login:
    """Parse an OAUTHBEARER login. Raises ValueError with a full sentence."""
    options: Mapping[str, str] = {}
    if _JAAS in values:
        try:
            jaas = parse_jaas(values[_JAAS])
        except ValueError as problem:
            raise ValueError(f"{_JAAS}: {problem}") from problem
        if jaas.module != OAUTHBEARER_MODULE:
            raise ValueError(f"{_JAAS}: {OAUTHBEARER_MODULE} required ...; is wanted for {OAUTHBEARER}")
        options = jaas.options
    trust = {key: value for key, value in values.items() if key.startswith("ssl.truststore.")}
    endpoint = read_endpoint(values.get, options, trust)
    from kraft.rpc_client.login_tokens import FetchedTokens  # Brings trio, which `--help` does not want.

    return Login(mechanism=OAUTHBEARER, username=endpoint.client_id, tokens=FetchedTokens(endpoint))


def _read(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(STORE_BYTES_MAX + 1)
