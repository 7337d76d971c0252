"""The users of PLAIN on one listener, from the listener's `sasl.jaas.config`, and their changes while the node runs.

Kafka stores a changed `sasl.jaas.config` of a broker and applies it at the broker's next start. Here it applies to all
later logins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.resources import listener_key
from kraft.security.sasl.jaas import PLAIN_MODULE, JaasLogin, parse_jaas
from kraft.security.sasl.plain import PLAIN

_SUFFIX: Final = ".plain.sasl.jaas.config"
_OWN: Final = ("username", "password")


class PlainUsers(Mapping[str, str]):
    """Passwords by name. The object always has the newest; `version` changes with them."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)
        self.version = 0

    def take(self, users: Mapping[str, str]) -> None:
        """Replace the users."""
        if users != self._users:
            self._users = dict(users)
            self.version += 1

    def __getitem__(self, user: str) -> str:
        return self._users[user]

    def __iter__(self) -> Iterator[str]:
        return iter(self._users)

    def __len__(self) -> int:
        return len(self._users)

    def __repr__(self) -> str:
        return f"PlainUsers({len(self)}, hidden)"


def plain_key(listener: str) -> str:
    """The key that holds a listener's users."""
    return f"listener.name.{listener.lower()}{_SUFFIX}"


def listener_of(name: str) -> str | None:
    """The listener of a PLAIN users key, in lower case; None for another key."""
    listener = name.removeprefix("listener.name.").removesuffix(_SUFFIX)
    return listener if listener and name == plain_key(listener) else None


def changed_users(static: NodeConfig, listener: str, text: str) -> dict[str, str]:
    """The users of a `sasl.jaas.config` that is set while the node runs. `static` is the configuration at the node's
    start.

    Raises ValueError, with a message that quotes nothing of the text, if it cannot be used: the listener has no PLAIN,
    the text or a value of a config provider cannot be read, or it changes the node's own name or password, which are
    read only at the start.
    """
    name = next((each.name for each in static.listeners if each.name.lower() == listener.lower()), None)
    if name is None or PLAIN not in _mechanisms(static, name):
        raise ValueError(f"there is no listener {listener} that takes logins by PLAIN; listeners are read at the start")
    login = _plain_login(static.resolve(text))
    at_start = static.values.get(plain_key(name))
    own = {} if not isinstance(at_start, str) else _plain_login(at_start).options
    if any(key in login.options and login.options[key] != own.get(key) for key in _OWN):
        raise ValueError(
            "username and password, by which this node logs in at others, are read when it starts: leave them out or "
            "as they are"
        )
    return login.users


def _mechanisms(config: NodeConfig, listener: str) -> tuple[str, ...]:
    """The SASL mechanisms of a listener; none without SASL."""
    if config.security_protocols.get(listener) not in ("SASL_PLAINTEXT", "SASL_SSL"):
        return ()
    key = "sasl.enabled.mechanisms"
    value = config.values.get(listener_key(listener, key), config.values[key])
    return tuple(each.upper() for each in value) if isinstance(value, tuple) else ()


def _plain_login(text: str) -> JaasLogin:
    login = parse_jaas(text)
    if login.module != PLAIN_MODULE:
        raise ValueError(f"the login module is not {PLAIN_MODULE}")
    return login
