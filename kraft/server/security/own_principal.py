"""Checks, at the start of a controller, that the quorum will accept its requests.

ACLs are in the metadata log, which a controller can read only after its quorum has accepted it. With an authorizer, a
controller's principal must therefore be one of `super.users`. Otherwise every vote request fails.
"""

from __future__ import annotations

from kraft.common.config.node.checks import super_users
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.errors import ConfigurationError
from kraft.common.ids import ANONYMOUS
from kraft.common.logging import Logger
from kraft.rpc_client.login_tokens import NoLoginToken
from kraft.security.certificate_names import first_certificate
from kraft.security.principal_mapping import PrincipalMapping
from kraft.server.connection_limits import principal_rules
from kraft.server.security.logins import NodeLogins
from kraft.server.security.tls_keys import TlsKeys
from kraft.world.ports import World


def _needs_permission(config: NodeConfig) -> bool:
    """Whether the controller needs the votes of other controllers, and their authorizer denies requests by default."""
    return (
        bool(config.text("authorizer.class.name"))
        and config.is_controller
        and not config.quorum_of_one
        and not config.flag("allow.everyone.if.no.acl.found")
    )


async def own_subject(world: World, config: NodeConfig, logins: NodeLogins, log: Logger) -> str:
    """The subject of the token with which a controller logs in at other nodes. "" if it does not matter, or if no token
    can be fetched yet, which is logged."""
    login = logins.towards(config.controller_listener_names[0])
    if login is None or login.tokens is None or not _needs_permission(config):
        return ""
    for tokens in logins.tokens:
        if tokens is login.tokens:
            try:
                return (await tokens.current(world)).subject
            except NoLoginToken as problem:
                log.error("no token for this node's logins: super.users is not checked", reason=str(problem))
    return ""


def check_own_principal(config: NodeConfig, keys: TlsKeys, logins: NodeLogins, subject: str = "") -> None:
    """Raises ConfigurationError if the authorizer would deny this controller in a quorum of several. `subject` is that
    of its token, if it logs in by one."""
    if not _needs_permission(config):
        return
    listener = config.controller_listener_names[0]
    principal, reason = own_principal(config, keys, logins, listener, subject)
    if not principal:
        return
    if principal not in super_users(config.text("super.users")):
        raise ConfigurationError(
            [
                f"super.users must name {principal} on every controller: as {principal} this node asks the others for "
                f"votes over the listener {listener} ({reason}). The authorizer would refuse it, and the quorum would "
                "never have a leader"
            ]
        )


def own_principal(
    config: NodeConfig, keys: TlsKeys, logins: NodeLogins, listener: str, subject: str
) -> tuple[str, str]:
    """The principal of this node's connections at other nodes, and its source; "" if it is not known yet.

    Other nodes are assumed to have the same settings as this node.
    """
    login = logins.towards(listener)
    if login is not None and login.tokens is not None:
        return f"User:{subject}" if subject else "", "the subject of its token"
    if login is not None:
        return f"User:{login.username}", "the username of its sasl.jaas.config"
    asked, shown = keys.of_listener(listener), keys.towards(listener)
    if asked is None or shown is None:
        return ANONYMOUS, "which asks for no login"
    if asked.client_auth == "none" or not shown.certificate_chain:
        return ANONYMOUS, "which asks for no certificate: see ssl.client.auth"
    key, rules = principal_rules(config, listener)
    try:
        return PrincipalMapping(rules).principal(
            first_certificate(shown.certificate_chain)
        ), f"the name in its certificate, by {key}"
    except ValueError as problem:
        raise ConfigurationError([f"{key}: {problem}"]) from problem
