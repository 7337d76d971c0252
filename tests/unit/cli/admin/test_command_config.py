"""`--command-config` with tokens: what a file may say, and what it is told when it says something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.cli.admin.command_config import read_client_keys, read_client_security
from kraft.common.errors import ConfigurationError
from kraft.rpc_client.login_tokens import FetchedTokens
from kraft.security.sasl.oauthbearer import OAUTHBEARER_MODULE
from tests.certificates import certificates

TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
    "sasl.jaas.config": f'{OAUTHBEARER_MODULE} required clientId="me" clientSecret="a-secret" scope="logs";',
    "sasl.login.read.timeout.ms": "5000",
}


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("security.protocl", "security.protocol"),
        ("security_protocol", "security.protocol"),
        ("bootstrap.server", "bootstrap.servers"),
        ("request.timout.ms", "request.timeout.ms"),
    ],
)
def test_a_misspelled_key_is_rejected_with_a_suggestion(tmp_path: Path, wrong: str, meant: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"{wrong}=x\n")
    with pytest.raises(ConfigurationError, match=f"unknown key {wrong}: did you mean {meant}"):
        read_client_security(str(path))


def test_keys_of_clients_and_of_other_programs_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\nacks=all\ngroup.id=g\nschema.registry.url=http://a\nmy.interceptor.x=1\n")
    assert read_client_security(str(path)).tls is None


def write(directory: Path, **changes: str | None) -> str:
    certificates().write(directory)
    values = {**TOKENS, "ssl.truststore.location": f"{directory}/ca.pem"}
    given = {**values, **{name.replace("__", "."): text for name, text in changes.items()}}
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in given.items() if text is not None))
    return str(path)


def test_tokens_come_from_the_place_that_the_file_names(tmp_path: Path) -> None:
    login = read_client_security(write(tmp_path)).login
    assert login is not None
    assert isinstance(login.tokens, FetchedTokens)
    endpoint = login.tokens.endpoint
    assert (login.mechanism, login.username, endpoint.client_secret) == ("OAUTHBEARER", "me", "a-secret")
    assert (endpoint.url, endpoint.scope, endpoint.answer_seconds) == ("https://issuer/token", "logs", 5.0)
    assert endpoint.tls.values == {"ssl.truststore.location": f"{tmp_path}/ca.pem"}
    assert "a-secret" not in repr(login)
    assert read_client_keys(write(tmp_path))["sasl.mechanism"] == "OAUTHBEARER"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sasl__jaas__config": None}, "client.id and .secret are missing"),
        ({"sasl__jaas__config": "a.B required;"}, "OAuthBearerLoginModule required ...; is wanted"),
        ({"sasl__jaas__config": "nonsense"}, "it is not of the form"),
        ({"sasl__oauthbearer__token__endpoint__url": None}, "has to name where tokens come from"),
        ({"sasl__oauthbearer__assertion__file": "/x"}, "sasl.oauthbearer.assertion.file is not served yet"),
        ({"sasl__mechanism": "GSSAPI"}, "is not served, only PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
    ],
)
def test_unusable_client_properties_are_reported_without_secrets(
    tmp_path: Path, changes: dict[str, str | None], sentence: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_client_security(write(tmp_path, **changes))
    assert any(sentence in problem for problem in caught.value.problems), caught.value.problems
    assert not any("a-secret" in problem for problem in caught.value.problems)
