"""How a source, a sink and a job reach nodes, from client keys. What nodes say to it is in the integration tests."""

from __future__ import annotations

import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kraft.spark.client.wire import TlsRefused, WireConnection
from kraft.spark.client.wire_security import PLAINTEXT, WireSecurity, context_of, only_librdkafka, parted, security_of
from kraft.world.ports import Login, Tls
from tests.certificates import certificates

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} username="u" password="secret";',
}


def test_without_a_security_protocol_nothing_is_encrypted() -> None:
    assert security_of({}) == security_of({"security.protocol": "plaintext"}) == PLAINTEXT


def test_tls_with_a_login_uses_the_systems_trusted_authorities() -> None:
    found = security_of({**LOGIN, "security.protocol": "SASL_SSL"})
    assert found.login == Login(mechanism="PLAIN", username="u", password="secret")
    assert found.tls is not None
    assert found.tls.check_host
    assert security_of(LOGIN).tls is None
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"sasl.mechanism": "GSSAPI"}, "kafka.sasl.mechanism must be one of"),
        ({"sasl.jaas.config": PLAIN}, "kafka.sasl.jaas.config: "),
        ({"sasl.jaas.config": "secret"}, "kafka.sasl.jaas.config: it is not of the form"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "the value for SCRAM-SHA-256 must be .*ScramLoginModule required"),
    ],
)
def test_unusable_security_settings_are_reported_without_the_secret(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told) as problem:
        security_of({**LOGIN, **given})
    assert "secret" not in str(problem.value)


def test_a_client_certificate_is_presented_and_only_the_given_authority_trusted(tmp_path: Path) -> None:
    directory = certificates().write(tmp_path)
    stores = {"ssl.keystore.location": f"{directory}/node.pem", "ssl.truststore.location": f"{directory}/ca.pem"}
    tls = security_of({"security.protocol": "SSL", **stores}).tls
    assert tls is not None
    context = context_of(tls)
    assert context.cert_store_stats()["x509_ca"] == 1
    assert context.check_hostname
    with pytest.raises(ValueError, match="cannot be used"):
        context_of(replace(tls, certificate_chain=tls.private_key))


def test_librdkafka_and_java_security_option_names_are_equivalent(tmp_path: Path) -> None:
    directory = certificates().write(tmp_path)
    java = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": LOGIN["sasl.jaas.config"],
        "ssl.truststore.location": f"{directory}/ca.pem",
        "ssl.keystore.location": f"{directory}/client.pem",
        "ssl.endpoint.identification.algorithm": "",
    }
    librdkafka = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "secret",
        "ssl.ca.location": f"{directory}/ca.pem",
        "ssl.certificate.location": f"{directory}/client.pem",
        "ssl.key.location": f"{directory}/client.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
    # A key's file may hold its certificates as well.
    assert security_of(java) == security_of(librdkafka)
    assert security_of(librdkafka).librdkafka()["ssl.endpoint.identification.algorithm"] == "none"
    with pytest.raises(ValueError, match=r"kafka\.ssl\.key\.location: /no/such cannot be read"):
        security_of({**librdkafka, "ssl.key.location": "/no/such"})


def test_cipher_suites_may_have_java_or_openssl_names() -> None:
    for name in ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"):
        tls = security_of({"security.protocol": "SSL", "ssl.cipher.suites": name}).tls
        assert tls is not None
        assert tls.ciphers == ("ECDHE-RSA-AES256-GCM-SHA384",)


def test_a_login_mechanism_only_librdkafka_supports_is_left_to_librdkafka() -> None:
    kerberos = {"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka", "client.id": "c"}
    assert only_librdkafka(kerberos) == "sasl.mechanism"
    assert parted(kerberos) == (WireSecurity(Tls()), kerberos)
    assert only_librdkafka({**kerberos, "sasl.mechanisms": "OAUTHBEARER"}) == "sasl.mechanisms"
    assert only_librdkafka(LOGIN) is None
    assert parted({**LOGIN, "client.id": "c"}) == (security_of(LOGIN), {"client.id": "c"})
    with pytest.raises(ValueError, match=r"cannot be honoured for kafka\.sasl\.mechanism=GSSAPI") as problem:
        parted({**LOGIN, "sasl.mechanism": "GSSAPI"})
    assert "secret" not in str(problem.value)
    with pytest.raises(ValueError, match="it is missing"):
        parted({name: value for name, value in LOGIN.items() if name != "sasl.mechanism"})


def test_the_clients_own_identity_is_described_readably() -> None:
    assert (security_of(LOGIN).principal, security_of(LOGIN).protocol) == ("User:u", "SASL_PLAINTEXT")
    assert (PLAINTEXT.principal, PLAINTEXT.protocol) == ("User:ANONYMOUS", "PLAINTEXT")
    assert PLAINTEXT.librdkafka() == {}
    assert (WireSecurity(Tls()).principal, WireSecurity(Tls()).protocol) == ("User:ANONYMOUS", "SSL")
    assert WireSecurity(Tls(certificate_chain="c")).principal == "the client certificate's principal"


def served(directory: Path, *, asks: bool) -> tuple[str, int]:
    """Where one connection is accepted, by a server with a certificate that may ask for one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "node.pem")
    if asks:
        context.load_verify_locations(directory / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with listener, listener.accept()[0] as accepted:
            try:
                context.wrap_socket(accepted, server_side=True).recv(1)
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    return ("127.0.0.1", listener.getsockname()[1])


@pytest.mark.parametrize(("asks", "why"), [(False, "self-signed|unable to get local issuer"), (True, "CERTIFICATE")])
def test_a_certificate_refused_by_either_end_fails_immediately(tmp_path: Path, asks: bool, why: str) -> None:
    address = served(certificates().write(tmp_path), asks=asks)
    trusted = certificates().trusted if asks else certificates().stranger
    with pytest.raises(TlsRefused, match=rf"do not agree on TLS \(.*({why}).*\): check kafka\.security") as problem:
        WireConnection(address, "c", 10, WireSecurity(Tls(trusted=trusted)))
    assert not problem.value.is_retriable
