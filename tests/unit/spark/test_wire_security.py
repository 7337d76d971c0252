"""How the sink reaches nodes, from the `kafka.*` options. What the nodes say to it is in the integration tests."""

from __future__ import annotations

import pytest

from kraft.spark.wire_security import PLAINTEXT, security_of
from kraft.world.ports import Login

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
