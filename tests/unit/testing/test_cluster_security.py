"""What secures a cluster of the test kit: mistakes are told, and clients of each kind read the settings that they are
given."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.admin.command_config import read_client_security
from kraft.spark.client.wire_security import security_of
from kraft.testing.certificates import MissingPackage, authority
from kraft.testing.cluster_security import ClusterSecurity

BOOTSTRAP = "127.0.0.1:9092"


def secured(security: Any, directory: Path, users: Any = None) -> ClusterSecurity:
    made = ClusterSecurity(security, users, authorizer=False)
    made.place(directory)
    return made


@pytest.mark.parametrize("security", ["plain", "tls", "sasl_plaintext", "sasl_ssl"])
def test_our_own_clients_and_spark_read_the_same_from_their_settings(security: Any, tmp_path: Path) -> None:
    cluster = secured(security, tmp_path)
    user = None if security == "plain" else "admin"
    java = cluster.client_settings("java", BOOTSTRAP, user)
    (tmp_path / "client.properties").write_text("".join(f"{key}={value}\n" for key, value in java.items()))
    spark = cluster.client_settings("spark", BOOTSTRAP, user)
    assert spark.pop("kafka.bootstrap.servers") == BOOTSTRAP
    read = read_client_security(str(tmp_path / "client.properties"))
    wire = security_of({key.removeprefix("kafka."): value for key, value in spark.items()})
    assert (read.login, read.tls) == (wire.login, wire.tls)
    assert read.login == cluster.login
    assert (read.tls is None) == (cluster.tls is None)
    if read.tls is not None:
        assert read.tls.trusted == authority().pem.strip()
        assert bool(read.tls.private_key) == (security == "tls")


def test_clients_of_other_languages_get_settings_with_their_own_names(tmp_path: Path) -> None:
    logins = secured("sasl_ssl", tmp_path / "logins")
    assert logins.client_settings("librdkafka", BOOTSTRAP, "alice") == {
        "bootstrap.servers": BOOTSTRAP,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(tmp_path / "logins" / "ca.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }
    found = logins.client_settings("aiokafka", BOOTSTRAP, "alice")
    assert len(found.pop("ssl_context").get_ca_certs()) == 1
    assert found == {
        "bootstrap_servers": BOOTSTRAP,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
    }
    certificates = secured("tls", tmp_path / "certificates")
    store = str(tmp_path / "certificates" / "alice.user.pem")
    found = certificates.client_settings("librdkafka", BOOTSTRAP, "alice")
    assert (found["ssl.key.location"], found["ssl.certificate.location"]) == (store, store)
    assert "ssl.key.location" not in certificates.client_settings("librdkafka", BOOTSTRAP, None)
    assert set(certificates.client_settings("aiokafka", BOOTSTRAP, "alice")) == {
        "bootstrap_servers",
        "security_protocol",
        "ssl_context",
    }


def test_keys_are_created_once_and_readable_only_by_their_owner(tmp_path: Path) -> None:
    first, second = secured("tls", tmp_path / "1"), secured("tls", tmp_path / "2")
    assert first.tls == second.tls
    assert {path.name: path.read_text() for path in (tmp_path / "1").iterdir()} == {
        path.name: path.read_text() for path in (tmp_path / "2").iterdir()
    }
    assert stat.S_IMODE((tmp_path / "1" / "node.user.pem").stat().st_mode) == 0o600
    secured("sasl_plaintext", tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("mistake", "kind", "sentence"),
    [
        (
            lambda: ClusterSecurity("ssl", authorizer=False),  # type: ignore[arg-type]
            ValueError,
            'security is one of "plain", "tls", "sasl_plaintext" or "sasl_ssl", not "ssl"',
        ),
        (
            lambda: ClusterSecurity("plain", authorizer=True),
            ValueError,
            "an authorizer needs to know who asks: "
            'start the cluster with security="tls", "sasl_plaintext" or "sasl_ssl"',
        ),
        (
            lambda: ClusterSecurity("plain", ["bob"], authorizer=False),
            ValueError,
            "there are no users where nobody logs in: "
            'start the cluster with security="tls", "sasl_plaintext" or "sasl_ssl"',
        ),
        (
            lambda: ClusterSecurity("tls", "bob", authorizer=False),
            ValueError,
            'users is a list of names: users=["bob"]',
        ),
        (
            lambda: ClusterSecurity("tls", ["node"], authorizer=False),
            ValueError,
            '"node" cannot be a user: so the nodes call themselves',
        ),
        (
            lambda: ClusterSecurity("tls", ["../bob"], authorizer=False),
            ValueError,
            '"../bob" cannot be a user: a name has 1 to 64 letters, digits, dots, dashes, underscores',
        ),
        (
            lambda: ClusterSecurity("sasl_ssl", authorizer=False).client_settings("java", BOOTSTRAP, "bob"),
            LookupError,
            'there is no user bob; there are admin, alice: users=["bob"] adds one',
        ),
        (
            lambda: ClusterSecurity(authorizer=False).client_settings("java", BOOTSTRAP, "bob"),
            LookupError,
            "there is no user bob: nobody logs in at this cluster, "
            'which security="tls", "sasl_plaintext" or "sasl_ssl" changes',
        ),
        (
            lambda: ClusterSecurity("sasl_ssl", authorizer=False).client_settings("java", BOOTSTRAP, None),
            ValueError,
            "this cluster lets nobody in without a login: name a user (admin, alice)",
        ),
        (
            lambda: ClusterSecurity(authorizer=False).client_settings("kafkajs", BOOTSTRAP, None),  # type: ignore[arg-type]
            ValueError,
            'a client is one of "java", "librdkafka", "aiokafka" or "spark", not "kafkajs"',
        ),
    ],
)
def test_invalid_security_settings_are_reported_in_one_sentence(
    mistake: Callable[[], object], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind) as caught:
        mistake()
    assert str(caught.value) == sentence


def test_certificates_without_their_package_are_rejected_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    authority.cache_clear()
    with pytest.raises(MissingPackage, match=r"pip install 'kraft-node\[test-kit\]'"):
        ClusterSecurity("tls", authorizer=False)
    assert ClusterSecurity("sasl_plaintext", authorizer=False).tls is None
