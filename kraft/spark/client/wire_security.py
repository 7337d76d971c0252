"""The security of a source's, sink's or job's connections: TLS and login. One value, built from Kafka's client keys (or
librdkafka's names), configures both the sockets of `wire.py` and librdkafka.

Key and trust stores are read on the driver, when options are checked. The tasks get their contents. No secret appears
in a repr or an error.
"""

from __future__ import annotations

import functools
import re
import secrets
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kraft.security.sasl.authentication import PASSWORD_MECHANISMS
from kraft.security.sasl.errors import SaslRefused
from kraft.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from kraft.security.sasl.plain import PLAIN, plain_message
from kraft.security.sasl.scram import ScramClient
from kraft.security.scram_credentials import MECHANISMS
from kraft.security.tls import KEYS, STORE_BYTES_MAX, TRUSTSTORE, TlsSettings, load_tls
from kraft.world.ports import Login, Tls

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
HANDSHAKE_VERSION: Final = 1
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
USERNAME: Final = "sasl.username"
PASSWORD: Final = "sasl.password"
CIPHERS: Final = "ssl.cipher.suites"
IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
AUTHORITIES: Final = "ssl.ca.location"
SYNONYMS: Final = {
    "sasl.mechanisms": MECHANISM,
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""librdkafka's names of properties that have another name in Java's clients."""
FILES: Final = {"ssl.certificate.location": "ssl.keystore.certificate.chain", "ssl.key.location": "ssl.keystore.key"}
"""librdkafka's file properties for which Java's clients have a text property."""
SECURITY_KEYS: Final = frozenset(
    (
        "security.protocol",
        MECHANISM,
        JAAS,
        USERNAME,
        PASSWORD,
        AUTHORITIES,
        *SYNONYMS,
        *FILES,
        *KEYS,
        "ssl.keystore.type",
        "ssl.truststore.type",
        "ssl.protocol",
        "ssl.provider",
        "security.providers",
    )
)
"""The security keys with an effect, and those that only select Java classes."""
PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----.*?-----END \1-----", re.DOTALL)
Call = Callable[[Any, int | None], Any]


class WireSecurity(NamedTuple):
    """The security of all connections to one cluster. Equal settings compare equal. The repr shows no secret."""

    tls: Tls | None = None
    login: Login | None = None

    @property
    def protocol(self) -> str:
        if self.login is None:
            return "PLAINTEXT" if self.tls is None else "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"

    @property
    def principal(self) -> str:
        """The principal that the nodes see, for messages. The principal of a certificate is known only to the nodes."""
        if self.login is not None:
            return f"User:{self.login.username}"
        has_certificate = self.tls is not None and self.tls.certificate_chain
        return "the client certificate's principal" if has_certificate else "User:ANONYMOUS"

    def librdkafka(self) -> dict[str, str]:
        """Return the settings as librdkafka's properties, with the stores' contents instead of their paths. Contains
        secrets."""
        config = {} if self == PLAINTEXT else {"security.protocol": self.protocol}
        if self.login is not None:
            config |= {
                "sasl.mechanisms": self.login.mechanism,
                USERNAME: self.login.username,
                PASSWORD: self.login.password,
            }
        return config if self.tls is None else {**config, **librdkafka_tls(self.tls)}


PLAINTEXT: Final = WireSecurity()


def librdkafka_tls(tls: Tls) -> dict[str, str]:
    """Return librdkafka's TLS properties. An empty setting keeps librdkafka's default."""
    given = {
        "ssl.ca.pem": tls.trusted,
        "ssl.certificate.pem": tls.certificate_chain,
        "ssl.key.pem": tls.private_key,
        "ssl.key.password": tls.key_password or "",
        CIPHERS: ":".join(tls.ciphers),
    }
    found = {name: value for name, value in given.items() if value}
    return {**found, IDENTIFICATION: "https" if tls.check_host else "none"}


def security_of(kafka: Mapping[str, str], read: Callable[[str], bytes] | None = None) -> WireSecurity:
    """Parse the security from client keys without the prefix `kafka.`. `read` returns a file's content. Raises
    ValueError."""
    given = {SYNONYMS.get(name, name): value for name, value in kafka.items()}
    protocol = protocol_of(given)
    tls = tls_of(given, read or read_store) if protocol.endswith("SSL") else None
    return WireSecurity(tls, login_of(given) if protocol.startswith("SASL") else None)


def parted(kafka: Mapping[str, str]) -> tuple[WireSecurity, dict[str, str]]:
    """Split client keys into the security and the other keys. The keys of a login that only librdkafka supports stay
    among the other keys. Raises ValueError."""
    others = {name: value for name, value in kafka.items() if name not in SECURITY_KEYS}
    login = only_librdkafka(kafka)
    if login is None:
        return security_of(kafka), others
    if JAAS in kafka:
        raise ValueError(f"kafka.{JAAS} cannot be honoured for kafka.{login}={kafka.get(login, 'GSSAPI')} without Java")
    kept = ("security.protocol", MECHANISM, "sasl.mechanisms", USERNAME, PASSWORD)
    others |= {name: value for name, value in kafka.items() if name in kept}
    encrypted = {**kafka, "security.protocol": protocol_of(kafka).removeprefix("SASL_")}
    return security_of(encrypted), others


def protocol_of(kafka: Mapping[str, str]) -> str:
    """Return the security protocol. Raises ValueError for an unknown one."""
    protocol = kafka.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"kafka.security.protocol must be one of {', '.join(PROTOCOLS)}, got '{protocol}'")
    return protocol


def only_librdkafka(kafka: Mapping[str, str]) -> str | None:
    """Return the key that selects a login which only librdkafka supports (Kerberos, OAUTHBEARER); None if there is
    none. Raises ValueError."""
    name = "sasl.mechanisms" if MECHANISM not in kafka and "sasl.mechanisms" in kafka else MECHANISM
    if not protocol_of(kafka).startswith("SASL") or kafka.get(name, "GSSAPI").strip().upper() in PASSWORD_MECHANISMS:
        return None
    is_forgotten = name not in kafka and (JAAS in kafka or USERNAME in kafka)
    return None if is_forgotten else name


def tls_of(kafka: Mapping[str, str], read: Callable[[str], bytes]) -> Tls:
    """Parse the TLS settings. Raises ValueError."""
    values = {name: value for name, value in kafka.items() if name in KEYS}
    for name, text in FILES.items():
        if name in kafka:
            values[text] = blocks_of(name, kafka[name], read)
    if AUTHORITIES in kafka:
        values.setdefault(TRUSTSTORE, kafka[AUTHORITIES])
    if values.get(IDENTIFICATION, "").strip().lower() == "none":
        values[IDENTIFICATION] = ""  # librdkafka's word for it.
    suites = values.get(CIPHERS, "").strip()
    if not suites or "_WITH_" in suites or suites.startswith("TLS_"):
        return load_tls(TlsSettings(values=values, is_server=False, prefix="kafka."), read)
    del values[CIPHERS]  # OpenSSL's names, as librdkafka takes them.
    tls = load_tls(TlsSettings(values=values, is_server=False, prefix="kafka."), read)
    return replace(tls, ciphers=tuple(suites.split(":")))


def blocks_of(name: str, path: str, read: Callable[[str], bytes]) -> str:
    """Return the keys, or the certificates, of a PEM file, which may hold both. Raises ValueError."""
    try:
        text = read(path)[: STORE_BYTES_MAX + 1].decode("utf-8", "replace")
    except OSError as problem:
        raise ValueError(f"kafka.{name}: {path} cannot be read: {problem.strerror or problem}") from problem
    is_key = name == "ssl.key.location"
    return "\n".join(block[0] for block in PEM.finditer(text) if block[1].endswith("PRIVATE KEY") == is_key)


def login_of(kafka: Mapping[str, str]) -> Login:
    """Parse the SASL login. Raises ValueError, without quoting the JAAS text: it holds a secret."""
    mechanism = kafka.get(MECHANISM, "GSSAPI").strip().upper()
    if mechanism not in PASSWORD_MECHANISMS:
        raise ValueError(
            f"kafka.{MECHANISM} must be one of {', '.join(PASSWORD_MECHANISMS)}, "
            + (f"got '{mechanism}'" if MECHANISM in kafka else "and it is missing (Kafka's default is GSSAPI)")
        )
    module = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
    form = f'{module} required username="..." password="...";'
    if JAAS not in kafka:
        username, password = kafka.get(USERNAME), kafka.get(PASSWORD)
        if not username or not password:
            raise ValueError(f"kafka.{JAAS} is missing: {form} (or kafka.{USERNAME} and kafka.{PASSWORD})")
        return Login(mechanism=mechanism, username=username, password=password)
    try:
        jaas = parse_jaas(kafka[JAAS])
    except ValueError as problem:
        raise ValueError(f"kafka.{JAAS}: {problem}") from problem
    username, password = jaas.options.get("username"), jaas.options.get("password")
    if jaas.module != module or not username or not password:
        raise ValueError(f"kafka.{JAAS}: the value for {mechanism} must be {form}")
    return Login(
        mechanism=mechanism, username=username, password=password, by_token=jaas.by_token and mechanism != PLAIN
    )


def read_store(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(STORE_BYTES_MAX + 1)


@functools.lru_cache(maxsize=8)
def context_of(tls: Tls) -> ssl.SSLContext:
    """Create the TLS context, once per process. Raises ValueError."""
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
    """Load the certificate chain and key. OpenSSL reads them only from a path, so they are in a private temporary file,
    which is deleted immediately. Raises ssl.SSLError."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(f"{tls.private_key}\n{tls.certificate_chain}".encode())
        file.flush()
        # With a password of "", OpenSSL fails where it would ask on the terminal for one.
        context.load_cert_chain(file.name, password=tls.key_password or "")


def log_in(call: Call, login: Login) -> int:
    """Authenticate over the connection of `call`. Returns the session lifetime in ms; 0 means unlimited. Raises
    SaslRefused, OSError."""
    handshake = call(SaslHandshakeRequest(mechanism=login.mechanism), HANDSHAKE_VERSION)
    if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise SaslRefused("the node's listener does not use SASL: set kafka.security.protocol to PLAINTEXT or SSL")
    if handshake.error_code:
        served = ", ".join(handshake.mechanisms) or "none"
        raise SaslRefused(f"the node does not serve the SASL mechanism {login.mechanism}, but {served}")
    if login.mechanism == PLAIN:
        return int(say(call, plain_message(login.username, login.password)).session_lifetime_ms)
    scram = ScramClient(MECHANISMS[login.mechanism], login.username, secrets.token_hex(16), by_token=login.by_token)
    challenge = scram.challenge(bytes(say(call, scram.first()).auth_bytes))
    last = say(call, scram.final(scram.salt(login.password, challenge)))
    scram.finish(bytes(last.auth_bytes))
    return int(last.session_lifetime_ms)


def say(call: Call, message: bytes) -> Any:
    """Send one SaslAuthenticate request and return the response. Raises SaslRefused."""
    answer = call(SaslAuthenticateRequest(auth_bytes=message), None)
    if answer.error_code:
        raise SaslRefused(answer.error_message or f"the node refused the login (error {answer.error_code})")
    return answer
