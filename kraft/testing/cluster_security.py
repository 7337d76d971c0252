"""The security of a `LocalCluster`'s nodes, and the settings that clients need to connect."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, get_args

from kraft.security.sasl.jaas import PLAIN_MODULE
from kraft.testing.certificates import authority
from kraft.testing.ports import HOST
from kraft.world.ports import Login, Tls

Security = Literal["plain", "tls", "sasl_plaintext", "sasl_ssl"]
Client = Literal["java", "librdkafka", "aiokafka", "spark"]

ADMIN: Final = "admin"
"""The super user, with which the cluster's own methods log in."""
NODE: Final = "node"
USERS: Final = ("alice",)
_PROTOCOLS: Final[dict[str, str]] = {
    "plain": "PLAINTEXT",
    "tls": "SSL",
    "sasl_plaintext": "SASL_PLAINTEXT",
    "sasl_ssl": "SASL_SSL",
}
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_AUTHORITY: Final = "ca.pem"


class ClusterSecurity:
    """The users of a test cluster and their credentials. `place` writes the key files and is called before a node
    starts."""

    def __init__(self, security: Security = "plain", users: Iterable[str] | None = None, *, authorizer: bool) -> None:
        """`users` (none given: alice) exist beside the admin. Raises ValueError with a sentence for the user,
        MissingPackage."""
        if security not in _PROTOCOLS:
            raise ValueError(f'security is one of {_quoted(_PROTOCOLS)}, not "{security}"')
        self.protocol: Final = _PROTOCOLS[security]
        self.has_tls: Final = self.protocol.endswith("SSL")
        self.has_logins: Final = self.protocol.startswith("SASL")
        if not self.has_tls and not self.has_logins and (authorizer or users is not None):
            what = "an authorizer needs to know who asks" if authorizer else "there are no users where nobody logs in"
            raise ValueError(f"{what}: start the cluster with security={_quoted(_PROTOCOLS, 'plain')}")
        self.users: Final = () if self.protocol == "PLAINTEXT" else _users(USERS if users is None else users)
        self._authorizer = authorizer
        self._authority = authority() if self.has_tls else None
        self._directory = Path()

    def place(self, directory: Path) -> None:
        """Write keys and certificates to `directory`, which is created. Raises OSError."""
        self._directory = directory.absolute()
        if self._authority is None:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / _AUTHORITY).write_text(self._authority.pem)
        for name in (NODE, *self.users):
            with os.fdopen(os.open(self._store(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(self._authority.issued(name))

    # Nodes

    def listeners(self, broker_port: int, controller_port: int) -> dict[str, str]:
        """The properties of a node's listeners and their security."""
        if self.protocol == "PLAINTEXT":
            return {"listeners": f"PLAINTEXT://{HOST}:{broker_port},CONTROLLER://{HOST}:{controller_port}"}
        return {
            "listeners": f"CLIENTS://{HOST}:{broker_port},CONTROLLER://{HOST}:{controller_port}",
            "listener.security.protocol.map": f"CLIENTS:{self.protocol},CONTROLLER:{self.protocol}",
            "inter.broker.listener.name": "CLIENTS",
            **(self._node_stores() if self.has_tls else {}),
            **(self._node_logins() if self.has_logins else {}),
            **(self._node_authorizer() if self._authorizer else {}),
        }

    def _node_stores(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self._store(NODE),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._store(),
            "ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
        }

    def _node_logins(self) -> dict[str, str]:
        return {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": _jaas(NODE, NODE, *self.users),
            "listener.name.controller.plain.sasl.jaas.config": _jaas(NODE, NODE),
        }

    @staticmethod
    def _node_authorizer() -> dict[str, str]:
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{NODE};User:{ADMIN}",
        }

    def _store(self, name: str | None = None) -> str:
        """The file with a user's key and certificate; None: the file with the authority's certificate."""
        return str(self._directory / (_AUTHORITY if name is None else f"{name}.user.pem"))

    # Clients

    @property
    def tls(self) -> Tls | None:
        """The TLS settings of the admin's connections; None without TLS."""
        if self._authority is None:
            return None
        own = self._authority.issued(ADMIN)
        return Tls(trusted=self._authority.pem, certificate_chain=own, private_key=own)

    @property
    def login(self) -> Login | None:
        """The admin's login; None if the cluster has no logins."""
        return Login(mechanism="PLAIN", username=ADMIN, password=_password(ADMIN)) if self.has_logins else None

    def client_settings(self, client: Client, bootstrap: str, user: str | None) -> dict[str, Any]:
        """Settings for `user`, by the property names of `client`. Raises LookupError for an unknown user. Raises
        ValueError for an unknown client, or if the cluster needs a login and `user` is None."""
        self._require_user(user)
        if client == "java":
            return self._java(bootstrap, user)
        if client == "spark":
            return {f"kafka.{key}": value for key, value in self._java(bootstrap, user).items()}
        if client == "librdkafka":
            return self._librdkafka(bootstrap, user)
        if client == "aiokafka":
            return self._aiokafka(bootstrap, user)
        raise ValueError(f'a client is one of {_quoted(get_args(Client))}, not "{client}"')

    def _require_user(self, user: str | None) -> None:
        if user is None:
            if self.has_logins:
                raise ValueError(f"this cluster lets nobody in without a login: name a user ({', '.join(self.users)})")
        elif not self.users:
            choice = _quoted(_PROTOCOLS, "plain")
            raise LookupError(
                f"there is no user {user}: nobody logs in at this cluster, which security={choice} changes"
            )
        elif user not in self.users:
            raise LookupError(f'there is no user {user}; there are {", ".join(self.users)}: users=["{user}"] adds one')

    def _java(self, bootstrap: str, user: str | None) -> dict[str, str]:
        settings = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol}
        if self.has_tls:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self._store()}
        if user is None:
            return settings
        if self.has_logins:
            return settings | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": _jaas(user)}
        return settings | {"ssl.keystore.type": "PEM", "ssl.keystore.location": self._store(user)}

    def _librdkafka(self, bootstrap: str, user: str | None) -> dict[str, str]:
        settings = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol}
        if self.has_tls:
            settings["ssl.ca.location"] = self._store()
        if user is None:
            return settings
        if self.has_logins:
            return settings | {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": _password(user)}
        return settings | {"ssl.certificate.location": self._store(user), "ssl.key.location": self._store(user)}

    def _aiokafka(self, bootstrap: str, user: str | None) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "security_protocol": self.protocol}
        if self.has_tls:
            import ssl

            settings["ssl_context"] = context = ssl.create_default_context(cafile=self._store())
            if user is not None and not self.has_logins:
                context.load_cert_chain(self._store(user))
        if user is not None and self.has_logins:
            settings |= {
                "sasl_mechanism": "PLAIN",
                "sasl_plain_username": user,
                "sasl_plain_password": _password(user),
            }
        return settings


def _users(names: Iterable[str]) -> tuple[str, ...]:
    """The admin and `names`, each once. Raises ValueError."""
    if isinstance(names, str):
        raise ValueError(f'users is a list of names: users=["{names}"]')
    users = tuple(dict.fromkeys((ADMIN, *names)))
    for name in users:
        if name == NODE:
            raise ValueError(f'"{NODE}" cannot be a user: so the nodes call themselves')
        if not _NAME.fullmatch(name):
            raise ValueError(
                f'"{name}" cannot be a user: a name has 1 to 64 letters, digits, dots, dashes, underscores'
            )
    return users


def _password(user: str) -> str:
    return f"{user}-secret"


def _jaas(user: str, *known: str) -> str:
    """The JAAS line of a node: the login of `user`, and the users in `known` that may log in."""
    options = "".join(f' user_{name}="{_password(name)}"' for name in known)
    return f'{PLAIN_MODULE} required username="{user}" password="{_password(user)}"{options};'


def _quoted(names: Iterable[str], but: str = "") -> str:
    words = [f'"{name}"' for name in names if name != but]
    return f"{', '.join(words[:-1])} or {words[-1]}"
