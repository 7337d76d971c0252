"""The causes why a node cannot be reached, and the remedy for each. Pure: it works on the exception."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft.rpc_client.errors import LoginFailed, NoBroker
from kraft.world.hosts import UnknownHost

LOGIN: Final = "login"
NAME: Final = "name"
EXPIRED: Final = "expired"
EARLY: Final = "early"
UNTRUSTED: Final = "untrusted"
OTHER_NAME: Final = "other name"
WANTS_CERTIFICATE: Final = "wants certificate"
REFUSED: Final = "refused"
SILENT: Final = "silent"
HUNG_UP: Final = "hung up"

_OF_CERTIFICATES: Final = (
    ("certificate has expired", EXPIRED),
    ("certificate is not yet valid", EARLY),
    ("Hostname mismatch", OTHER_NAME),
    ("IP address mismatch", OTHER_NAME),
    ("self-signed certificate", UNTRUSTED),
    ("unable to get local issuer", UNTRUSTED),
    ("unable to get issuer", UNTRUSTED),
    ("certificate required", WANTS_CERTIFICATE),
)
"""OpenSSL's messages about certificates."""
REMEDIES: Final = {
    LOGIN: "user, password or mechanism in --command-config is wrong: `kraft users list` (by somebody who gets in) "
    "shows who there is",
    NAME: "the name does not resolve on this machine: correct it, or add it to DNS or /etc/hosts",
    EXPIRED: "the certificate that this node shows has ended: replace the files that its ssl.keystore.location names; "
    "the node takes them within seconds, without a restart",
    EARLY: "the certificate that this node shows is not valid yet: look at the clocks here (`date`) and there",
    UNTRUSTED: "nobody that --command-config trusts signed this node's certificate: ssl.truststore.location has to "
    "name the authority that did",
    OTHER_NAME: "the node's certificate names other hosts: connect by one of those, or issue one that names this host",
    WANTS_CERTIFICATE: "the listener wants a certificate of the client: --command-config with ssl.keystore.location",
    REFUSED: "no node listens there: is it running, and is this its port (listeners)?",
    SILENT: "a firewall drops packets, the node is frozen, or the address is that of another machine",
}
HANGS_UP_ON_PLAIN: Final = (
    "a TLS listener closes plaintext connections: give --command-config with security.protocol=SSL or SASL_SSL"
)
HANGS_UP_ON_TLS: Final = (
    "the listener may not use TLS (security.protocol), or may require a trusted client certificate "
    "(ssl.keystore.location)"
)


def cause_of(problem: BaseException) -> str:
    """The cause of the problem: one of the constants above."""
    found = list(_chain(problem))
    if any(isinstance(each, LoginFailed) for each in found):
        return LOGIN
    if any(isinstance(each, UnknownHost) for each in found):
        return NAME
    text = " ".join(map(str, found))
    for words, cause in _OF_CERTIFICATES:
        if words in text:
            return cause
    if any(isinstance(each, TimeoutError) for each in found):
        return SILENT
    if any(isinstance(each, ConnectionRefusedError) for each in found) or "refused" in text:
        return REFUSED
    return HUNG_UP


def remedy_of(problem: BaseException, *, is_encrypted: bool) -> str:
    """The remedy if a node cannot be reached. `is_encrypted` says whether this client uses TLS."""
    remedy = REMEDIES.get(cause_of(problem))
    if remedy is not None:
        return remedy
    return HANGS_UP_ON_TLS if is_encrypted else HANGS_UP_ON_PLAIN


def _chain(problem: BaseException) -> Iterator[BaseException]:
    """The problem with its causes."""
    seen: list[BaseException] = []
    waiting: list[BaseException] = [problem]
    while waiting:
        each = waiting.pop(0)
        if any(each is other for other in seen):
            continue
        seen.append(each)
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
        if isinstance(each, NoBroker):
            waiting += each.reasons
        waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
