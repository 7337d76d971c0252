"""Users of PLAIN that are set while a node runs: which are taken, and what is said of the others."""

from __future__ import annotations

import pytest

from kraft.common.config.node.layers import ConfigFile
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import Surroundings, load_node_config
from kraft.common.config.providers import SecretPlaces
from kraft.security.sasl.jaas import PLAIN_MODULE
from kraft.security.sasl.plain_users import PlainUsers, changed_users, listener_of

NODE = f"""\
listeners=CLIENTS://127.0.0.1:9092,OPEN://127.0.0.1:9094,BARE://127.0.0.1:9095,CONTROLLER://127.0.0.1:9093
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,OPEN:PLAINTEXT,BARE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN
listener.name.bare.sasl.enabled.mechanisms=SCRAM-SHA-256
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config={PLAIN_MODULE} required username="node" password="n-secret" user_node="n";
config.providers=directory
config.providers.directory.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.directory.param.allowed.paths=/secrets
"""


def node(files: dict[str, str] | None = None) -> NodeConfig:
    places = SecretPlaces(read=(files or {}).get, exists=lambda path: path == "/secrets")
    return load_node_config(
        files=[ConfigFile("node.properties", NODE)], surroundings=Surroundings(secret_places=places)
    )


def changed(options: str, listener: str = "clients", files: dict[str, str] | None = None) -> dict[str, str]:
    return changed_users(node(files), listener, f"{PLAIN_MODULE} required {options};")


def test_users_are_exactly_those_of_the_jaas_text() -> None:
    assert changed('user_alice="a" user_bob="b;b"') == {"alice": "a", "bob": "b;b"}
    assert changed('username="node" password="n-secret" user_alice="a"', "CLIENTS") == {"alice": "a"}


def test_passwords_come_from_providers_and_are_read_again() -> None:
    files = {"/secrets/bob": "first"}
    assert changed('user_bob="${directory:/secrets:bob}"', files=files) == {"bob": "first"}
    files["/secrets/bob"] = "second"
    assert changed('user_bob="${directory:/secrets:bob}"', files=files) == {"bob": "second"}
    with pytest.raises(ValueError, match="names no value"):
        changed('user_bob="${directory:/secrets:eve}"', files=files)


@pytest.mark.parametrize("listener", ["open", "bare", "nosuch"])
def test_a_listener_without_plain_has_no_users(listener: str) -> None:
    with pytest.raises(ValueError, match=f"there is no listener {listener} that takes logins by PLAIN"):
        changed('user_alice="a"', listener)


@pytest.mark.parametrize("options", ['username="other"', 'username="node" password="g-secret"'])
def test_the_nodes_own_login_cannot_be_changed(options: str) -> None:
    with pytest.raises(ValueError, match="username and password, by which this node logs in") as refused:
        changed(options)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["nonsense", "", f'{PLAIN_MODULE} required user_a="s"', 'com.Other required user_a="s";']
)
def test_an_unreadable_jaas_text_is_rejected_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"module|semicolon|form") as refused:
        changed_users(node(), "clients", text)
    assert '"s"' not in str(refused.value)


def test_a_key_names_its_listener() -> None:
    assert listener_of("listener.name.clients.plain.sasl.jaas.config") == "clients"
    for other in ("plain.sasl.jaas.config", "listener.name.clients.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"):
        assert listener_of(other) is None


def test_the_version_rises_only_on_changes_and_no_password_is_shown() -> None:
    users = PlainUsers({"alice": "secret"})
    users.take({"alice": "secret"})
    assert (users.version, dict(users), len(users)) == (0, {"alice": "secret"}, 1)
    users.take({"bob": "secret"})
    assert (users.version, list(users)) == (1, ["bob"])
    assert "secret" not in repr(users)
