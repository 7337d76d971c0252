"""The outcome of a login on a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

CREDENTIALS: Final = "credentials"
"""Wrong name or password, or a violation of the mechanism's rules."""
MECHANISM: Final = "mechanism"
"""The client requested a mechanism that the listener does not serve."""
REQUEST: Final = "request"
"""Another request arrived during the login."""
TLS: Final = "tls"
"""The TLS handshake failed, or the certificate is not trusted."""
PRINCIPAL: Final = "principal"
"""No mapping rule matches the name in the certificate."""


class LoginOutcome(NamedTuple):
    """One login attempt. `failure` is one of the constants above, empty on success; `reason` is human-readable."""

    mechanism: str
    host: str
    user: str = ""
    """User name that the client claims, if any."""
    failure: str = ""
    reason: str = ""


Report = Callable[[LoginOutcome], None]


def ignore(outcome: LoginOutcome) -> None:
    """Ignore login outcomes."""
