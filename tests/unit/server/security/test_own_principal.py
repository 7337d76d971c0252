"""A controller whose principal the authorizer would refuse ends its start with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ConfigurationError
from kraft.common.logging import Loggers
from kraft.server.security.logins import NodeLogins
from kraft.server.security.own_principal import check_own_principal, own_subject
from kraft.server.security.tls_keys import TlsKeys
from kraft.world.real import RealWorld
from tests.certificates import certificates

AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SEVERAL = "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def check(*sets: str) -> None:
    config = load_node_config(sets=[AUTHORIZER, *sets])
    check_own_principal(config, TlsKeys(RealWorld(), config), NodeLogins(config))


def refused(*sets: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check(*sets)
    (problem,) = caught.value.problems
    return problem


def test_a_node_without_a_login_is_anonymous() -> None:
    problem = refused(SEVERAL)
    assert problem.startswith("super.users must name User:ANONYMOUS on every controller")
    assert "over the listener CONTROLLER (which asks for no login)" in problem
    check(SEVERAL, "super.users=User:ANONYMOUS")


def test_a_node_with_a_login_has_the_principal_of_its_user() -> None:
    sets = (
        SEVERAL,
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol=PLAIN",
        "sasl.enabled.mechanisms=PLAIN",
        f'listener.name.controller.plain.sasl.jaas.config={PLAIN} required username="node" password="p" user_node="p";',
    )
    problem = refused(*sets, "super.users=User:admin;User:ANONYMOUS")
    assert problem.startswith("super.users must name User:node on every controller")
    check(*sets, "super.users=User:admin;User:node")


def test_a_node_with_a_token_has_the_principal_of_its_subject() -> None:
    validator = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    config = load_node_config(
        sets=[
            AUTHORIZER,
            SEVERAL,
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "sasl.mechanism.controller.protocol=OAUTHBEARER",
            "sasl.enabled.mechanisms=OAUTHBEARER",
            f"listener.name.controller.oauthbearer.sasl.server.callback.handler.class={validator}",
            "sasl.oauthbearer.jwks.endpoint.url=https://issuer/keys",
            "sasl.oauthbearer.token.endpoint.url=file:///none",
            "sasl.login.retry.backoff.max.ms=50",
            "super.users=User:admin",
        ]
    )
    world, logins = RealWorld(), NodeLogins(config)
    lines: list[str] = []
    log = Loggers(lambda line: lines.append(str(line)), world.clock).get("node")
    subject = trio.run(own_subject, world, config, logins, log)
    assert subject == ""
    assert "super.users is not checked" in lines[0]
    check_own_principal(config, TlsKeys(world, config), logins, subject)
    with pytest.raises(ConfigurationError, match=r"User:node on every controller.*the subject of its token"):
        check_own_principal(config, TlsKeys(world, config), logins, "node")


def test_a_node_with_a_certificate_has_the_principal_of_the_mapping_rules(tmp_path: Path) -> None:
    certificates().write(tmp_path)
    sets = (
        SEVERAL,
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        f"ssl.keystore.location={tmp_path}/node.pem",
        f"ssl.truststore.location={tmp_path}/ca.pem",
    )
    assert "must name User:ANONYMOUS" in refused(*sets)
    assert "asks for no certificate: see ssl.client.auth" in refused(*sets)
    asked = (*sets, "ssl.client.auth=required")
    problem = refused(*asked, "super.users=User:ANONYMOUS")
    name = problem.removeprefix("super.users must name ").partition(" on every controller")[0]
    assert name.startswith("User:OU=")
    assert "the name in its certificate, by ssl.principal.mapping.rules" in problem
    check(*asked, f"super.users={name}")
    assert "must name User:all" in refused(*asked, "ssl.principal.mapping.rules=RULE:.*/all/")
    assert "no rule" in refused(*asked, "ssl.principal.mapping.rules=RULE:none/all/")


@pytest.mark.parametrize(
    "sets",
    [
        (),
        (SEVERAL, "allow.everyone.if.no.acl.found=true"),
        ("process.roles=broker", "controller.quorum.bootstrap.servers=127.0.0.1:1"),
    ],
)
def test_a_node_that_needs_no_quorum_permission_starts(sets: tuple[str, ...]) -> None:
    """A quorum of one asks nobody, and a broker may be let in by an entry."""
    check(*sets)
