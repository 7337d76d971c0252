"""Who asks the HTTP admin: passwords are checked once and bounded, and nothing outlives the credential."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from kraft_http.ports import Caller, LoginRefused

from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ConfigurationError
from kraft.metadata.image.scram_image import ScramCredential
from kraft.network.login_outcome import LoginOutcome
from kraft.security.principal_mapping import PrincipalMapping
from kraft.security.sasl.plain_users import PlainUsers
from kraft.security.scram_credentials import MECHANISMS, keys_of, salted_password
from kraft.security.tokens import Token, TokenRefused
from kraft.server.http_admin import logins as module
from kraft.server.http_admin.logins import (
    ATTEMPTS_MAX,
    HASHES_WAITING_MAX,
    BasicLogins,
    CertificateLogins,
    Login,
    make_admin_logins,
)
from kraft.world.ports import World
from kraft.world.real import RealWorld
from kraft.world.simulated import Universe
from tests.certificates import certificates
from tests.loop_steps import loop_steps
from tests.unit.server.brokers import simulate

HERE, ELSEWHERE = "10.0.0.7", "10.0.0.8"
SHA_512 = MECHANISMS["SCRAM-SHA-512"]
SLOW_ITERATIONS = 200_000
STEP_SECONDS_MAX = 0.02
"""Of one step. A password takes longer."""


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def scram(password: str, iterations: int = 4096) -> ScramCredential:
    keys = keys_of(SHA_512, salted_password(SHA_512, password, b"salt", iterations))
    return ScramCredential(b"salt", keys.stored_key, keys.server_key, iterations)


class Counted:
    """Threads of a world; how often they were used is counted."""

    def __init__(self, world: World) -> None:
        self._threads = world.threads
        self.runs = 0

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.runs += 1
        return await self._threads.run(function, *arguments)


class Edge:
    """Logins of a node with SCRAM's alice and PLAIN's bob."""

    def __init__(self, world: World) -> None:
        self.clock = world.clock
        self.credentials = {("alice", SHA_512.number): scram("wonderland")}
        self.bobs = PlainUsers({"bob": "builder"})
        self.told: list[LoginOutcome] = []
        self.logins = BasicLogins(
            world,
            plain_users=[self.bobs, PlainUsers({"bob": "other"})],
            mechanisms=tuple(MECHANISMS.values()),
            credentials=lambda user, mechanism: self.credentials.get((user, mechanism)),
            failed_delay_ms=100,
            report=self.told.append,
        )
        self.threads = Counted(world)
        self.logins._threads = self.threads

    async def ask(self, authorization: str | None, host: str = HERE) -> str | int:
        """The principal, or the status of the refusal."""
        try:
            return (await self.logins.log_in(host, Caller(host=host, authorization=authorization))).principal
        except LoginRefused as problem:
            return problem.status

    async def ask_all(self, authorizations: list[tuple[str, str]]) -> list[str | int]:
        """Answers to (header, address), all at once, in any order."""
        answers: list[str | int] = []

        async def one(authorization: str, host: str) -> None:
            answers.append(await self.ask(authorization, host))

        async with trio.open_nursery() as nursery:
            for authorization, host in authorizations:
                nursery.start_soon(one, authorization, host)
        return answers


def played(play: Callable[[Edge], Awaitable[None]]) -> None:
    async def main(universe: Universe) -> None:
        await play(Edge(universe.world_for("a")))

    simulate(main)


def test_a_correct_password_gives_the_user_and_is_verified_once() -> None:
    async def play(edge: Edge) -> None:
        assert await edge.ask(basic("alice", "wonderland")) == "User:alice"
        assert await edge.ask(basic("alice", "wonderland"), ELSEWHERE) == "User:alice"
        assert await edge.ask(basic("bob", "builder")) == "User:bob"
        assert await edge.ask(basic("bob", "other")) == "User:bob", "another listener of the node takes it"
        assert edge.threads.runs == 1
        assert edge.told == [LoginOutcome("BASIC", HERE, user) for user in ("alice", "bob", "bob")]

    played(play)


@pytest.mark.parametrize(
    "authorization",
    [basic("alice", "no"), basic("nobody", "no"), basic("bob", "no"), "Bearer x", "Basic ?", basic("a", "")],
)
def test_a_wrong_password_is_refused_after_a_delay_and_audited(authorization: str) -> None:
    async def play(edge: Edge) -> None:
        began = edge.clock.now()
        assert await edge.ask(authorization) == 401
        assert 0.1 <= edge.clock.now() - began < 0.2
        [outcome] = edge.told
        assert (outcome.host, bool(outcome.failure)) == (HERE, True)

    played(play)


def test_a_token_is_accepted_until_it_expires_and_a_wrong_one_is_audited() -> None:
    def check(text: str) -> Token:
        if text != "right":
            raise TokenRefused("the token has expired")
        return Token(subject="kate", expires_at_ms=0, taken_until_ms=ends_at_ms)

    ends_at_ms = 0

    async def play(edge: Edge) -> None:
        nonlocal ends_at_ms
        edge.logins._token_checks = [check]
        ends_at_ms = edge.clock.wall_ms() + 5000
        login = await edge.logins.log_in(HERE, Caller(host=HERE, authorization="Bearer right"))
        assert (login.principal, edge.logins.holds(login)) == ("User:kate", True)
        await edge.clock.sleep(5)
        assert not edge.logins.holds(login)
        assert await edge.ask("Bearer wrong") == 401
        assert edge.told[-1] == LoginOutcome("BEARER", HERE, "", "credentials", "the token has expired")

    played(play)


def test_a_request_without_credentials_is_challenged_and_not_audited() -> None:
    async def play(edge: Edge) -> None:
        with pytest.raises(LoginRefused, match="Log in with the name and password"):
            await edge.logins.log_in(HERE, Caller(host=HERE))
        assert edge.told == []

    played(play)


def test_a_changed_or_removed_password_is_refused_immediately() -> None:
    async def play(edge: Edge) -> None:
        for change in ({("alice", SHA_512.number): scram("new")}, {}):
            edge.credentials = {("alice", SHA_512.number): scram("wonderland")}
            login = await edge.logins.log_in(HERE, Caller(host=HERE, authorization=basic("alice", "wonderland")))
            assert edge.logins.holds(login)
            edge.credentials = change
            assert not edge.logins.holds(login)
            assert await edge.ask(basic("alice", "wonderland")) == 401

    played(play)


def test_a_cached_plain_password_is_valid_until_the_users_change() -> None:
    async def play(edge: Edge) -> None:
        login = await edge.logins.log_in(HERE, Caller(host=HERE, authorization=basic("bob", "builder")))
        assert edge.logins.holds(login)
        edge.bobs.take({"carol": "c"})
        assert not edge.logins.holds(login)
        assert await edge.ask(basic("bob", "builder")) == 401
        assert await edge.ask(basic("carol", "c")) == "User:carol"

    played(play)


def test_concurrent_requests_with_the_same_password_verify_it_once() -> None:
    async def play(edge: Edge) -> None:
        asked = [(basic("alice", "wonderland"), HERE)] * 50
        assert await edge.ask_all(asked) == ["User:alice"] * 50
        assert await edge.ask_all([(basic("alice", "no"), HERE)] * 50) == [401] * 50
        assert edge.threads.runs == 2

    played(play)


def test_an_address_that_guesses_passwords_is_delayed_without_delaying_others() -> None:
    async def play(edge: Edge) -> None:
        assert await edge.ask(basic("alice", "wonderland")) == "User:alice"
        guesses = [(basic("alice", f"guess {number}"), HERE) for number in range(100)]
        answers = await edge.ask_all(guesses)
        assert (answers.count(401), answers.count(429)) == (ATTEMPTS_MAX, 100 - ATTEMPTS_MAX)
        assert edge.threads.runs == 1 + ATTEMPTS_MAX
        assert len(edge.told) == 101
        assert await edge.ask(basic("bob", "builder")) == 429
        assert await edge.ask(basic("alice", "wonderland")) == "User:alice"
        assert await edge.ask(basic("bob", "builder"), ELSEWHERE) == "User:bob"
        await edge.clock.sleep(1.0)
        assert await edge.ask(basic("bob", "builder")) == "User:bob"

    played(play)


def test_the_number_of_queued_password_checks_is_limited() -> None:
    async def play(edge: Edge) -> None:
        many = [(basic("alice", f"guess {number}"), f"10.0.1.{number}") for number in range(200)]
        answers = await edge.ask_all(many)
        assert answers.count(401) == HASHES_WAITING_MAX
        assert answers.count(503) == 200 - HASHES_WAITING_MAX
        assert await edge.ask(basic("alice", "wonderland"), "10.0.1.199") == "User:alice"

    played(play)


def test_the_login_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 2)
    monkeypatch.setattr(module, "HOSTS_MAX", 2)

    async def play(edge: Edge) -> None:
        for host in (HERE, ELSEWHERE, "10.0.0.9"):
            await edge.ask(basic("bob", "builder"), host)
            await edge.ask(basic("bob", "other"), host)
            await edge.ask(basic("alice", "wonderland"), host)
            await edge.ask(basic("alice", "no"), host)
        assert len(edge.logins._known) == 2
        assert len(edge.logins._attempts._left) == 2

    played(play)


def test_a_flood_of_wrong_passwords_delays_no_other_client() -> None:
    async def main() -> None:
        edge = Edge(RealWorld())
        edge.credentials = {("alice", SHA_512.number): scram("wonderland", SLOW_ITERATIONS)}
        probes = 0

        async def probe() -> None:
            nonlocal probes
            while True:
                probes += 1
                await trio.sleep(0.001)

        with loop_steps() as steps:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(probe)
                answers = await edge.ask_all(
                    [(basic("alice", f"guess {number}"), f"10.0.1.{number}") for number in range(200)]
                )
                nursery.cancel_scope.cancel()
            task, seconds = steps.longest_since()
        assert answers.count(401) == HASHES_WAITING_MAX
        assert seconds < STEP_SECONDS_MAX, task
        assert probes > HASHES_WAITING_MAX
        assert await edge.ask(basic("alice", "wonderland"), HERE) == "User:alice"

    trio.run(main)


def certificate_logins(rules: str) -> tuple[CertificateLogins, list[LoginOutcome]]:
    told: list[LoginOutcome] = []
    return CertificateLogins(PrincipalMapping(rules), told.append), told


def der() -> bytes:
    from ssl import PEM_cert_to_DER_cert

    return PEM_cert_to_DER_cert(certificates().client_chain)


def test_a_certificate_gives_the_principal_by_the_mapping_rules() -> None:
    async def main() -> None:
        logins, told = certificate_logins("RULE:^.*O=([^,]+).*$/somebody/, DEFAULT")
        caller = Caller(host=HERE, certificate=der())
        for _ in range(2):
            assert await logins.log_in(HERE, caller) == Login(principal="User:somebody")
        assert [(outcome.mechanism, outcome.failure) for outcome in told] == [("TLS", "")]

    trio.run(main)


def test_a_missing_certificate_and_one_without_a_matching_rule_are_refused() -> None:
    async def main() -> None:
        logins, told = certificate_logins("RULE:^nobody$/x/")
        for certificate, sentence in ((None, "Present a certificate"), (der(), "The certificate's name")):
            with pytest.raises(LoginRefused, match=sentence) as refused:
                await logins.log_in(HERE, Caller(host=HERE, certificate=certificate))
            assert refused.value.status == 403
        assert [outcome.failure for outcome in told] == ["principal"]

    trio.run(main)


@pytest.mark.parametrize(
    ("sets", "kind"),
    [
        ([], type(None)),
        (["kraft.admin.authentication=basic"], BasicLogins),
        (
            [
                "kraft.admin.authentication=mtls",
                "kraft.admin.ssl.client.auth=required",
                "kraft.admin.ssl.keystore.location=x",
            ],
            CertificateLogins,
        ),
    ],
)
def test_the_configuration_key_selects_the_login_method(sets: list[str], kind: type[Any]) -> None:
    def made(*more: str) -> Any:
        world: Any = RealWorld()
        return make_admin_logins(world, load_node_config(sets=[*sets, *more]), lambda *_: None, lambda _: None)

    assert type(made()) is kind
    if kind is CertificateLogins:
        with pytest.raises(ConfigurationError, match=r"kraft\.admin\.ssl\.principal\.mapping\.rules"):
            made("kraft.admin.ssl.principal.mapping.rules=nonsense")
