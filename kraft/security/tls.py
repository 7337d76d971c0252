"""TLS settings of connections, from Kafka's `ssl.*` keys.

Keys and certificates may be PEM files, PEM texts in the configuration itself, or PKCS#12 files. A file's type is
detected from its content, whatever `ssl.keystore.type` says. JKS files are rejected with the command that converts
them. Files are read only through the given `read`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kraft.world.ports import Tls

KEYSTORE: Final = "ssl.keystore.location"
TRUSTSTORE: Final = "ssl.truststore.location"
STORE_BYTES_MAX: Final = 4 << 20
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----.*?-----END \1-----", re.DOTALL)
_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_TLS_1_3_SUITES: Final = re.compile(r"TLS_(?:AES|CHACHA20)_.*")
_SUITE: Final = re.compile(
    r"TLS_(?P<exchange>ECDHE_RSA|ECDHE_ECDSA|DHE_RSA|RSA)_WITH_"
    r"(?P<cipher>AES_(?:128|256)_(?:GCM|CBC)|CHACHA20_POLY1305)_(?P<hash>SHA(?:256|384)?)"
)


KEYS: Final = (
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    KEYSTORE,
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    TRUSTSTORE,
    "ssl.truststore.password",
)
"""Supported keys. Each may be set for one listener."""


class TlsProblem(ValueError):
    """Raised for an unusable setting. The message names the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The texts of one listener's, or one client's, `ssl.*` keys."""

    values: Mapping[str, object]
    """Values by Kafka's key without the listener prefix. A missing key or None is not set."""
    is_server: bool
    prefix: str = ""
    """`listener.name.<listener>.`, for error messages."""

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the key files: when one changes, the keys must be reloaded."""
        return tuple(path for key in (KEYSTORE, TRUSTSTORE) if (path := self.text(key)))

    def text(self, key: str) -> str:
        value = self.values.get(key)
        return value if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key)
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value if isinstance(value, tuple) else ()


def load_tls(settings: TlsSettings, read: Callable[[str], bytes]) -> Tls:
    """Load the keys. `read` returns a file's content. Raises TlsProblem with a message."""
    key, chain, password = _own_keys(settings, read)
    trusted = _trusted(settings, read)
    client_auth = settings.text("ssl.client.auth") or "none"
    if settings.is_server and not chain:
        raise TlsProblem(f"{settings.prefix}{KEYSTORE} (or ssl.keystore.key) has to name the server's key for SSL")
    if settings.is_server and client_auth != "none" and not trusted:
        raise TlsProblem(
            f"{settings.prefix}ssl.client.auth={client_auth} needs {TRUSTSTORE} (or ssl.truststore.certificates): "
            "the authorities whose clients are let in"
        )
    identification = settings.values.get("ssl.endpoint.identification.algorithm", "https")
    if identification not in ("https", "HTTPS", "", None):
        raise TlsProblem(
            f"{settings.prefix}ssl.endpoint.identification.algorithm is https, or empty for no check of the host name"
        )
    protocols, ciphers = _versions(settings)
    return Tls(
        certificate_chain=chain,
        private_key=key,
        key_password=password,
        trusted=trusted,
        client_auth=client_auth if settings.is_server else "none",
        check_host=bool(identification) and not settings.is_server,
        protocols=protocols,
        ciphers=ciphers,
    )


def _own_keys(settings: TlsSettings, read: Callable[[str], bytes]) -> tuple[str, str, str | None]:
    """The private key, the chain and the key's password; empty if there are none."""
    key_text, chain_text = settings.text("ssl.keystore.key"), settings.text("ssl.keystore.certificate.chain")
    location, password = settings.text(KEYSTORE), settings.text("ssl.key.password") or None
    if location and (key_text or chain_text):
        raise TlsProblem(f"{settings.prefix}{KEYSTORE} and ssl.keystore.key are both set: one of them is enough")
    if not location:
        if bool(key_text) != bool(chain_text):
            raise TlsProblem(
                f"{settings.prefix}ssl.keystore.key and ssl.keystore.certificate.chain belong together: one is missing"
            )
        pem, where = f"{key_text}\n{chain_text}", "ssl.keystore.key"
        if not key_text:
            return "", "", None
    else:
        store = _Store(settings, KEYSTORE, "ssl.keystore.password", read)
        if store.is_pkcs12:
            pem, where, password = store.pkcs12(), location, None
        else:
            pem, where = store.text(), location
    blocks = _blocks(pem)
    keys = [text for label, text in blocks if label.endswith("PRIVATE KEY")]
    chain = [text for label, text in blocks if label == "CERTIFICATE"]
    if len(keys) != 1 or not chain:
        raise TlsProblem(
            f"{settings.prefix}{KEYSTORE if location else 'ssl.keystore.key'}: {where} has {len(keys)} private keys "
            f"and {len(chain)} certificates; one key and its chain are needed"
        )
    if "ENCRYPTED" in keys[0][:200] and password is None:
        raise TlsProblem(f"{settings.prefix}ssl.key.password is needed: the private key in {where} is encrypted")
    return keys[0], "\n".join(chain), password


def _trusted(settings: TlsSettings, read: Callable[[str], bytes]) -> str:
    pem, where = settings.text("ssl.truststore.certificates"), "ssl.truststore.certificates"
    if settings.text(TRUSTSTORE):
        if pem:
            raise TlsProblem(
                f"{settings.prefix}{TRUSTSTORE} and ssl.truststore.certificates are both set: one of them is enough"
            )
        store = _Store(settings, TRUSTSTORE, "ssl.truststore.password", read)
        pem, where = store.pkcs12() if store.is_pkcs12 else store.text(), settings.text(TRUSTSTORE)
    elif not pem:
        return ""
    certificates = [text for label, text in _blocks(pem) if label in ("CERTIFICATE", "TRUSTED CERTIFICATE")]
    if not certificates:
        raise TlsProblem(f"{settings.prefix}{TRUSTSTORE}: there is no certificate in {where}")
    return "\n".join(certificates)


class _Store:
    """A keystore's or truststore's file."""

    def __init__(self, settings: TlsSettings, key: str, password_key: str, read: Callable[[str], bytes]) -> None:
        self._name, self._path = f"{settings.prefix}{key}", settings.text(key)
        self._password, self._password_key = settings.text(password_key), f"{settings.prefix}{password_key}"
        try:
            self._content = read(self._path)
        except OSError as problem:
            raise TlsProblem(f"{self._name}: {self._path} cannot be read: {problem.strerror or problem}") from problem
        if len(self._content) > STORE_BYTES_MAX:
            raise TlsProblem(f"{self._name}: {self._path} has more than {STORE_BYTES_MAX} bytes")
        if self._content[:4] in _JKS_MAGIC:
            raise TlsProblem(
                f"{self._name}: {self._path} is a JKS file, which only Java reads. Convert it: keytool -importkeystore "
                f"-srckeystore {self._path} -destkeystore {self._path}.p12 -deststoretype PKCS12"
            )

    @property
    def is_pkcs12(self) -> bool:
        return self._content[:1] == b"\x30"

    def text(self) -> str:
        text = self._content.decode("utf-8", "replace")
        if "-----BEGIN " not in text:
            raise TlsProblem(f"{self._name}: {self._path} is neither PEM nor PKCS#12")
        return text

    def pkcs12(self) -> str:
        """The content of the file as PEM."""
        try:
            from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
        except ImportError as problem:
            raise TlsProblem(
                f"{self._name}: {self._path} is a PKCS#12 file, and the package cryptography reads those: "
                "pip install 'kraft-node[pkcs12]', or convert it to PEM: "
                f"openssl pkcs12 -in {self._path} -out {self._path}.pem"
            ) from problem
        try:
            opened = pkcs12.load_pkcs12(self._content, self._password.encode() if self._password else None)
        except ValueError as problem:
            raise TlsProblem(
                f"{self._name}: {self._path} cannot be opened: {self._password_key} is wrong or the file is damaged"
            ) from problem
        parts = [
            entry.certificate.public_bytes(Encoding.PEM)
            for entry in ([opened.cert] if opened.cert is not None else []) + opened.additional_certs
        ]
        if opened.key is not None:
            parts.append(opened.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return b"".join(parts).decode()


def _blocks(pem: str) -> list[tuple[str, str]]:
    """Label and text of each block."""
    return [(match[1], match[0]) for match in _PEM.finditer(pem)]


def _versions(settings: TlsSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Protocol versions in order, and TLS 1.2's suites by OpenSSL's names."""
    wanted = settings.texts("ssl.enabled.protocols") or _PROTOCOLS
    for name in wanted:
        if name not in _PROTOCOLS:
            raise TlsProblem(
                f"{settings.prefix}ssl.enabled.protocols: {name} is not served, only {' and '.join(_PROTOCOLS)}"
            )
    protocols = tuple(name for name in _PROTOCOLS if name in wanted)
    suites = settings.texts("ssl.cipher.suites")
    if not suites:
        return protocols, ()
    if "TLSv1.2" not in protocols:
        raise TlsProblem(f"{settings.prefix}ssl.cipher.suites chooses suites of TLSv1.2, which is not enabled")
    # In Java, suites of TLS 1.2 alone leave no way to speak TLS 1.3.
    return ("TLSv1.2",), tuple(openssl_suite(suite, settings.prefix) for suite in suites)


def openssl_suite(name: str, prefix: str = "") -> str:
    """OpenSSL's name for Java's `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`. Raises TlsProblem."""
    if _TLS_1_3_SUITES.fullmatch(name):
        raise TlsProblem(
            f"{prefix}ssl.cipher.suites: {name} is a suite of TLSv1.3, and Python cannot choose among those; leave "
            "the key out for all of them, or set ssl.enabled.protocols=TLSv1.2"
        )
    match = _SUITE.fullmatch(name)
    if match is None:
        raise TlsProblem(f"{prefix}ssl.cipher.suites: {name} is not known")
    exchange = "" if match["exchange"] == "RSA" else match["exchange"].replace("_", "-") + "-"
    cipher = match["cipher"].replace("AES_", "AES").replace("_GCM", "-GCM").replace("_CBC", "").replace("_", "-")
    suffix = "" if cipher.startswith("CHACHA20") else f"-{match['hash']}"
    return f"{exchange}{cipher}{suffix}"
