"""The outcome of a login on a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

CREDENTIALS: Final = "credentials"
"""Name or password are wrong, or the exchange broke the mechanism's rules."""
MECHANISM: Final = "mechanism"
"""The client asked for a mechanism that the listener does not serve."""
REQUEST: Final = "request"
"""Another request came in the midst of the login."""
TLS: Final = "tls"
"""There was no agreement on TLS, or no certificate that is trusted."""
PRINCIPAL: Final = "principal"
"""No rule makes a principal of the certificate's name."""


class LoginOutcome(NamedTuple):
    """One login attempt. `failure` is one of the constants above, empty on success; `reason` is human-readable."""

    mechanism: str
    host: str
    user: str = ""
    """As the client claims, where it does."""
    failure: str = ""
    reason: str = ""


Report = Callable[[LoginOutcome], None]


def ignore(outcome: LoginOutcome) -> None:
    """Ignore login outcomes."""
