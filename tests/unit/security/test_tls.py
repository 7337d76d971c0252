"""From Kafka's keys to keys and certificates, and a sentence for each setting that cannot be used."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from hypothesis import given
from hypothesis import strategies as st

from kraft.security.tls import STORE_BYTES_MAX, TlsProblem, TlsSettings, load_tls, openssl_suite
from kraft.world.ports import Tls
from kraft.world.real.tls import client_context, server_context
from tests.certificates import certificates

FOUND = certificates()
PEM = {"node.pem": (FOUND.node_key + FOUND.node_chain).encode(), "ca.pem": FOUND.trusted.encode()}
OWN = {"ssl.keystore.location": "node.pem"}


def loaded(files: Mapping[str, bytes] = PEM, is_server: bool = True, **values: Any) -> Tls:
    def read(path: str) -> bytes:
        try:
            return files[path]
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory") from None

    named = {name.replace("_", "."): value for name, value in values.items()}
    return load_tls(TlsSettings(values=named, is_server=is_server, prefix="listener SSL: "), read)


def encrypted_key(password: str) -> str:
    key = load_pem_private_key(FOUND.node_key.encode(), None)
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    return sealed.decode()


def pkcs12_store(password: str, with_key: bool = True) -> bytes:
    key: Any = load_pem_private_key(FOUND.node_key.encode(), None) if with_key else None
    node = x509.load_pem_x509_certificate(FOUND.node_chain.encode()) if with_key else None
    authority = x509.load_pem_x509_certificate(FOUND.trusted.encode())
    return pkcs12.serialize_key_and_certificates(
        b"node", key, node, [authority], BestAvailableEncryption(password.encode())
    )


STORES: dict[str, tuple[dict[str, bytes], dict[str, str]]] = {
    "a PEM file": (PEM, OWN),
    "a PEM file called JKS, which is Kafka's default": (PEM, {**OWN, "ssl.keystore.type": "JKS"}),
    "texts in the configuration": (
        {},
        {"ssl.keystore.key": FOUND.node_key, "ssl.keystore.certificate.chain": FOUND.node_chain},
    ),
    "an encrypted key": (
        {"node.pem": (encrypted_key("secret") + FOUND.node_chain).encode()},
        {**OWN, "ssl.key.password": "secret"},
    ),
    "PKCS#12": ({"node.pem": pkcs12_store("secret")}, {**OWN, "ssl.keystore.password": "secret"}),
}


@pytest.mark.parametrize("name", list(STORES))
def test_a_server_loads_its_keys_from_each_store_type(name: str) -> None:
    files, values = STORES[name]
    server_context(loaded(files, **values))


@pytest.mark.parametrize(
    ("files", "values"),
    [
        (PEM, {"ssl.truststore.location": "ca.pem"}),
        ({}, {"ssl.truststore.certificates": FOUND.trusted}),
        (
            {"trust.p12": pkcs12_store("secret", with_key=False)},
            {"ssl.truststore.location": "trust.p12", "ssl.truststore.password": "secret"},
        ),
    ],
)
def test_a_client_loads_its_trusted_certificates_from_each_store_type(
    files: dict[str, bytes], values: dict[str, str]
) -> None:
    tls = loaded(files, is_server=False, **values)
    assert tls.check_host
    assert len(client_context(tls).get_ca_certs()) == 1


def test_a_client_without_settings_trusts_the_system_and_sends_no_certificate() -> None:
    tls = loaded(is_server=False)
    assert (tls.trusted, tls.certificate_chain, tls.check_host) == ("", "", True)
    assert not loaded(is_server=False, ssl_endpoint_identification_algorithm="").check_host


REFUSED: list[tuple[dict[str, bytes], dict[str, str], str]] = [
    (PEM, {}, r"listener SSL: ssl.keystore.location \(or ssl.keystore.key\) has to name the server's key"),
    (PEM, {"ssl.keystore.location": "none.pem"}, "none.pem cannot be read: No such file or directory"),
    ({"node.pem": b"\xfe\xed\xfe\xed\x00"}, OWN, "is a JKS file.*keytool -importkeystore -srckeystore node.pem"),
    ({"node.pem": b"hello"}, OWN, "neither PEM nor PKCS#12"),
    ({"node.pem": bytes(STORE_BYTES_MAX + 1)}, OWN, "has more than"),
    ({"node.pem": FOUND.node_chain.encode()}, OWN, "has 0 private keys and 1 certificates"),
    ({"node.pem": PEM["node.pem"] + FOUND.client_key.encode()}, OWN, "has 2 private keys"),
    ({"node.pem": STORES["an encrypted key"][0]["node.pem"]}, OWN, "ssl.key.password is needed"),
    ({"node.pem": pkcs12_store("secret")}, {**OWN, "ssl.keystore.password": "wrong"}, "ssl.keystore.password is wrong"),
    ({"node.pem": pkcs12_store("secret")}, OWN, "cannot be opened"),
    (PEM, {"ssl.keystore.key": FOUND.node_key}, "belong together"),
    (PEM, {**OWN, "ssl.keystore.key": FOUND.node_key}, "both set"),
    (PEM, {**OWN, "ssl.truststore.location": "ca.pem", "ssl.truststore.certificates": "x"}, "both set"),
    (PEM, {**OWN, "ssl.truststore.location": "none.pem"}, "none.pem cannot be read"),
    (PEM, {**OWN, "ssl.truststore.certificates": "nothing"}, "there is no certificate"),
    (PEM, {**OWN, "ssl.client.auth": "required"}, "needs ssl.truststore.location"),
    (PEM, {**OWN, "ssl.endpoint.identification.algorithm": "ldaps"}, "is https, or empty"),
    (PEM, {**OWN, "ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "TLSv1.1 is not served"),
    (PEM, {**OWN, "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "a suite of TLSv1.3"),
    (PEM, {**OWN, "ssl.cipher.suites": "SSL_RSA_WITH_RC4_128_MD5"}, "is not known"),
    (
        PEM,
        {**OWN, "ssl.enabled.protocols": "TLSv1.3", "ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"},
        "which is not enabled",
    ),
]


@pytest.mark.parametrize(("files", "values", "sentence"), REFUSED)
def test_unusable_tls_settings_are_rejected_with_one_sentence(
    files: dict[str, bytes], values: dict[str, str], sentence: str
) -> None:
    with pytest.raises(TlsProblem, match=sentence) as caught:
        loaded(files, **values)
    assert "listener SSL: " in str(caught.value)
    assert "PRIVATE KEY-" not in str(caught.value)


def test_pkcs12_without_its_package_is_rejected_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(TlsProblem, match=r"pip install 'kraft-node\[pkcs12\]'"):
        loaded({"node.pem": b"\x30\x82"}, **OWN)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
    ],
)
def test_java_cipher_suites_map_to_names_that_openssl_knows(java: str, openssl: str) -> None:
    assert openssl_suite(java) == openssl
    tls = loaded(**OWN, ssl_cipher_suites=java)
    assert (tls.protocols, tls.ciphers) == (("TLSv1.2",), (openssl,))
    server_context(tls)


@given(st.binary(max_size=200))
def test_any_file_is_loaded_or_rejected_with_one_sentence(content: bytes) -> None:
    with pytest.raises(TlsProblem):
        loaded({"node.pem": content}, **OWN)
