"""How the sockets of `wire.py` reach a node: encrypted or not, with a login or without. From Kafka's client keys.

Key and trust stores are read where the options are checked, on the driver: the tasks get their contents.
"""

from __future__ import annotations

import functools
import secrets
import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.security.sasl.authentication import SERVED_MECHANISMS
from kraft.security.sasl.errors import SaslRefused
from kraft.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from kraft.security.sasl.plain import PLAIN, plain_message
from kraft.security.sasl.scram import ScramClient
from kraft.security.scram_credentials import MECHANISMS
from kraft.security.tls import KEYS, STORE_BYTES_MAX, TlsSettings, load_tls
from kraft.world.ports import Login, Tls

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
HANDSHAKE_VERSION: Final = 1
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
SECURITY_KEYS: Final = frozenset(("security.protocol", "sasl.mechanism", "sasl.jaas.config", *KEYS)) | {
    f"ssl.{store}.type" for store in ("keystore", "truststore")
}
"""The client keys that count."""
Call = Callable[[Any, int | None], Any]


class WireSecurity(NamedTuple):
    """Of all connections to one cluster. A value: equal settings mean the same."""

    tls: Tls | None = None
    login: Login | None = None


PLAINTEXT: Final = WireSecurity()


def security_of(kafka: Mapping[str, str]) -> WireSecurity:
    """From client keys without `kafka.`. Raises ValueError with a sentence, OSError for a store that cannot be read."""
    protocol = kafka.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"kafka.security.protocol must be one of {', '.join(PROTOCOLS)}, got '{protocol}'")
    tls = login = None
    if protocol.endswith("SSL"):
        tls = load_tls(TlsSettings(values=kafka, is_server=False, prefix="kafka."), read_store)
    if protocol.startswith("SASL"):
        login = login_of(kafka)
    return WireSecurity(tls, login)


def login_of(kafka: Mapping[str, str]) -> Login:
    """Raises ValueError, which quotes nothing of the JAAS text: it holds a secret."""
    mechanism = kafka.get("sasl.mechanism", "GSSAPI").strip().upper()
    if mechanism not in SERVED_MECHANISMS:
        raise ValueError(f"kafka.sasl.mechanism must be one of {', '.join(SERVED_MECHANISMS)}, got '{mechanism}'")
    module = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
    form = f'{module} required username="..." password="...";'
    if "sasl.jaas.config" not in kafka:
        raise ValueError(f"kafka.sasl.jaas.config is missing: {form}")
    try:
        jaas = parse_jaas(kafka["sasl.jaas.config"])
    except ValueError as problem:
        raise ValueError(f"kafka.sasl.jaas.config: {problem}") from problem
    username, password = jaas.options.get("username"), jaas.options.get("password")
    if jaas.module != module or not username or not password:
        raise ValueError(f"kafka.sasl.jaas.config: {form} is wanted for {mechanism}")
    return Login(mechanism=mechanism, username=username, password=password)


def read_store(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(STORE_BYTES_MAX + 1)


@functools.lru_cache(maxsize=8)
def context_of(tls: Tls) -> ssl.SSLContext:
    """Made once a process. Raises ValueError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_host
    context.minimum_version, context.maximum_version = VERSIONS[tls.protocols[0]], VERSIONS[tls.protocols[-1]]
    try:
        if tls.trusted:
            context.load_verify_locations(cadata=tls.trusted)
        else:
            context.load_default_certs()
        if tls.ciphers:
            context.set_ciphers(":".join(tls.ciphers))
        if tls.certificate_chain:
            load_chain(context, tls)
    except ssl.SSLError as problem:
        raise ValueError(f"the certificates of kafka.ssl.* cannot be used: {problem.reason}") from problem
    return context


def load_chain(context: ssl.SSLContext, tls: Tls) -> None:
    """OpenSSL takes a chain and its key from a path only: one that nobody else may read, and that is gone at once.
    Raises ssl.SSLError."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(f"{tls.private_key}\n{tls.certificate_chain}".encode())
        file.flush()
        # With a password of "", OpenSSL fails where it would ask on the terminal for one.
        context.load_cert_chain(file.name, password=tls.key_password or "")


def log_in(call: Call, login: Login) -> int:
    """Prove who we are over a connection that `call` asks. For how many ms the node takes that (0: for ever). Raises
    SaslRefused, OSError."""
    handshake = call(SaslHandshakeRequest(mechanism=login.mechanism), HANDSHAKE_VERSION)
    if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise SaslRefused("the node's listener asks for no login: kafka.security.protocol is not one of SASL there")
    if handshake.error_code:
        served = ", ".join(handshake.mechanisms) or "none"
        raise SaslRefused(f"the node does not serve the SASL mechanism {login.mechanism}, but {served}")
    if login.mechanism == PLAIN:
        return int(say(call, plain_message(login.username, login.password)).session_lifetime_ms)
    scram = ScramClient(MECHANISMS[login.mechanism], login.username, secrets.token_hex(16))
    challenge = scram.challenge(bytes(say(call, scram.first()).auth_bytes))
    last = say(call, scram.final(scram.salt(login.password, challenge)))
    scram.finish(bytes(last.auth_bytes))
    return int(last.session_lifetime_ms)


def say(call: Call, message: bytes) -> Any:
    """Raises SaslRefused."""
    answer = call(SaslAuthenticateRequest(auth_bytes=message), None)
    if answer.error_code:
        raise SaslRefused(answer.error_message or f"the node refused the login (error {answer.error_code})")
    return answer
