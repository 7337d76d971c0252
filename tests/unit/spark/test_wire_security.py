"""How the sink reaches nodes, from the `kafka.*` options. What the nodes say to it is in the integration tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kraft.spark.wire_security import PLAINTEXT, context_of, security_of
from kraft.world.ports import Login
from tests.certificates import certificates

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{PLAIN} username="u" password="secret";',
}


def test_without_a_protocol_nothing_is_encrypted() -> None:
    assert security_of({}) == security_of({"security.protocol": "plaintext"}) == PLAINTEXT


def test_a_login_and_trust_in_what_the_system_trusts() -> None:
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
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "ScramLoginModule required .* is wanted for SCRAM-SHA-256"),
    ],
)
def test_what_cannot_be_used_is_told_without_the_secret(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told) as problem:
        security_of({**LOGIN, **given})
    assert "secret" not in str(problem.value)


def test_a_certificate_of_our_own_is_shown_and_one_authority_trusted(tmp_path: Path) -> None:
    directory = certificates().write(tmp_path)
    stores = {"ssl.keystore.location": f"{directory}/node.pem", "ssl.truststore.location": f"{directory}/ca.pem"}
    tls = security_of({"security.protocol": "SSL", **stores}).tls
    assert tls is not None
    context = context_of(tls)
    assert context.cert_store_stats()["x509_ca"] == 1
    assert context.check_hostname
    with pytest.raises(ValueError, match="cannot be used"):
        context_of(replace(tls, certificate_chain=tls.private_key))
