"""Keys of tokens: taken from a file or over HTTP, renewed, kept for a bounded time where they cannot be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ConfigurationError
from kraft.common.logging import Loggers
from kraft.rpc_client.http_fetch import DOCUMENT_BYTES_MAX, FetchFailed, fetch_document
from kraft.security.sasl.oauthbearer import OAUTHBEARER_MODULE, VALIDATOR, TokenCheck
from kraft.security.tls import TlsSettings
from kraft.security.tokens import TokenRefused, TokenRules
from kraft.server.security.logins import NodeLogins
from kraft.server.security.token_keys import STALE_SECONDS_MAX, TokenKeys, TokenSource
from kraft.world.ports import Stream, Tls
from kraft.world.simulated import SimulatedWorld, Universe
from tests.tokens import Authority, authority, stranger
from tests.unit.server.brokers import simulate

REFRESH_SECONDS = 3600.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b"


class Service:
    """Answers every request in the same way, and counts them."""

    def __init__(self, universe: Universe) -> None:
        self.world = universe.world_for("service")
        self.answer = b""
        self.asked: list[bytes] = []
        self.url = ""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        listener = await self.world.network.listen("0.0.0.0", 80)
        self.url = f"http://node-service:{listener.port}/keys?x=1"
        task_status.started()
        while True:
            stream = await listener.accept()
            await self._answer(stream)

    async def _answer(self, stream: Stream) -> None:
        buffer, head = bytearray(4096), b""
        while b"\r\n\r\n" not in head:
            count = stream.receive_nowait(memoryview(buffer))
            if count is None:
                await stream.wait_readable()
            else:
                head += bytes(buffer[:count])
        self.asked.append(head)
        if self.answer:
            await stream.send_all([self.answer])
            stream.close()

    def publish(self, signer: Authority) -> None:
        document = signer.jwks.encode()
        self.answer = OK % (len(document), document)


class Node:
    """A node that takes tokens of the service's authority."""

    def __init__(self, universe: Universe, url: str, nursery: trio.Nursery) -> None:
        self.world: SimulatedWorld = universe.world_for("a")
        self._nursery = nursery
        source = TokenSource(
            url=url,
            rules=TokenRules(),
            refresh_seconds=REFRESH_SECONDS,
            retry_seconds=0.1,
            retry_seconds_max=10.0,
            tls=TlsSettings(values={}, is_server=False),
        )
        log = Loggers(lambda line: None, self.world.clock).get("tokens")
        self.keys = TokenKeys(self.world, {"CLIENTS": source}, log)
        assert self.keys.check_of("OTHER") is None

    async def start(self) -> None:
        await self.keys.start(self._nursery)

    def takes(self, signer: Authority, **signed: Any) -> bool:
        check: TokenCheck | None = self.keys.check_of("CLIENTS")
        assert check is not None
        try:
            return check(signer.sign(self.world.clock.wall_ms() / 1000, **signed)).subject == "alice"
        except TokenRefused:
            return False


Play = Callable[[Service, Node], Awaitable[None]]


def played(play: Play) -> None:
    async def main(universe: Universe) -> None:
        async with trio.open_nursery() as nursery:
            service = Service(universe)
            await nursery.start(lambda task_status: service.run(task_status=task_status))
            service.publish(authority())
            await play(service, Node(universe, service.url, nursery))
            nursery.cancel_scope.cancel()

    simulate(main, seconds_max=200_000.0)


def test_token_keys_are_fetched_before_the_first_login_and_refreshed() -> None:
    async def play(service: Service, node: Node) -> None:
        await node.start()
        assert (node.takes(authority()), node.takes(stranger())) == (True, False)
        assert service.asked[0].startswith(b"GET /keys?x=1 HTTP/1.1\r\nHost: node-service:")
        service.publish(stranger())
        await node.world.clock.sleep(REFRESH_SECONDS - 10)
        assert (node.takes(authority()), len(service.asked)) == (True, 1)
        await node.world.clock.sleep(20)
        assert (node.takes(authority()), node.takes(stranger()), len(service.asked)) == (False, True, 2)

    played(play)


def test_an_unknown_key_id_triggers_an_early_but_rate_limited_refresh() -> None:
    async def play(service: Service, node: Node) -> None:
        await node.start()
        check = node.keys.check_of("CLIENTS")
        assert check is not None
        for _ in range(1000):
            with pytest.raises(TokenRefused):
                check(authority().sign(node.world.clock.wall_ms() / 1000, header={"kid": "new"}))
            await node.world.clock.sleep(0.1)
        assert 5 <= len(service.asked) <= 11

    played(play)


def test_a_key_id_first_seen_right_after_a_refresh_triggers_another_one() -> None:
    async def play(service: Service, node: Node) -> None:
        await node.start()
        service.publish(stranger())
        assert not node.takes(stranger(), header={"kid": "new"})
        await node.world.clock.sleep(12)
        assert node.takes(stranger())

    played(play)


def test_token_keys_that_cannot_be_refreshed_stay_valid_for_a_day() -> None:
    async def play(service: Service, node: Node) -> None:
        await node.start()
        service.answer = b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n"
        await node.world.clock.sleep(STALE_SECONDS_MAX - 60)
        assert node.takes(authority())
        await node.world.clock.sleep(REFRESH_SECONDS)
        assert not node.takes(authority())
        service.publish(authority())
        await node.world.clock.sleep(30)
        assert node.takes(authority())

    played(play)


def test_an_unresponsive_key_service_delays_startup_only_briefly() -> None:
    async def play(service: Service, node: Node) -> None:
        service.answer = b""
        began = node.world.clock.now()
        await node.start()
        assert node.world.clock.now() - began < 11
        assert not node.takes(authority())
        service.publish(authority())
        await node.world.clock.sleep(30)
        assert node.takes(authority())

    played(play)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "the status 302"),
        (OK % (DOCUMENT_BYTES_MAX + 1, b"x" * (DOCUMENT_BYTES_MAX + 1)), "more than 1048576 bytes"),
        (b"nonsense\r\n\r\n", "illegal status line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "without sending complete"),
        (b"", "no answer within 10 seconds"),
    ],
)
def test_a_key_response_that_is_no_document_is_a_failure(answer: bytes, reason: str) -> None:
    async def play(service: Service, node: Node) -> None:
        service.answer = answer
        with pytest.raises(FetchFailed, match=reason):
            await fetch_document(node.world, service.url, Tls())

    played(play)


def test_an_unreachable_key_service_is_a_failure() -> None:
    async def play(service: Service, node: Node) -> None:
        with pytest.raises(FetchFailed):
            await fetch_document(node.world, "http://node-service:1/", Tls())

    played(play)


SETTINGS = {
    "listeners": "CLIENTS://127.0.0.1:0,INNER://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "INNER",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer/keys",
    "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
}


def logins(**changes: str | None) -> NodeLogins:
    given = {**SETTINGS, **{name.replace("__", "."): text for name, text in changes.items()}}
    return NodeLogins(load_node_config(sets=[f"{name}={text}" for name, text in given.items() if text is not None]))


def test_the_most_specific_token_setting_applies() -> None:
    source = logins(
        sasl__oauthbearer__expected__issuer="all",
        listener__name__clients__sasl__oauthbearer__expected__issuer="listener",
        listener__name__clients__oauthbearer__sasl__oauthbearer__expected__audience="a,b",
        listener__name__clients__oauthbearer__sasl__jaas__config=f"{OAUTHBEARER_MODULE} required ;",
    ).token_sources["CLIENTS"]
    assert source.rules == TokenRules(issuer="listener", audiences=("a", "b"))
    assert (source.url, source.refresh_seconds, source.retry_seconds_max) == ("https://issuer/keys", 3600, 10)


HANDLER = "listener__name__clients__oauthbearer__sasl__server__callback__handler__class"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


@contextmanager
def refused_as(sentence: str) -> Iterator[None]:
    with pytest.raises(ConfigurationError) as refused:
        yield
    assert [problem for problem in refused.value.problems if sentence in problem], refused.value.problems


def test_settings_that_would_accept_unsigned_tokens_are_refused() -> None:
    with refused_as("Without it Kafka accepts unsigned tokens (OAuthBearerUnsecured)"):
        logins(**{HANDLER: None})
    with refused_as("unsigned ones (OAuthBearerUnsecured) are rejected"):
        logins(**{HANDLER: UNSECURED})
    with refused_as("options have no effect"):
        module = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="a";'
        logins(listener__name__clients__oauthbearer__sasl__jaas__config=module)
    with refused_as("must be the URL of the authority's keys"):
        logins(sasl__oauthbearer__jwks__endpoint__url=None)
    with refused_as("must be the URL of the authority's keys"):
        logins(sasl__oauthbearer__jwks__endpoint__url="ftp://issuer/keys")
    with refused_as("listener.name.controller.oauthbearer.sasl.server.callback.handler.class="):
        logins(listener__security__protocol__map="CLIENTS:SASL_PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT")


def test_a_missing_package_for_token_logins_is_reported_with_its_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kraft.server.security.logins.find_spec", lambda name: None)
    with refused_as("pip install 'kraft-node[oauth]'"):
        logins()


BY_TOKENS = {
    "listener__security__protocol__map": "CLIENTS:SASL_PLAINTEXT,INNER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "listener__name__inner__oauthbearer__sasl__server__callback__handler__class": VALIDATOR,
    "listener__name__controller__oauthbearer__sasl__server__callback__handler__class": VALIDATOR,
    "sasl__mechanism__inter__broker__protocol": "OAUTHBEARER",
    "sasl__mechanism__controller__protocol": "OAUTHBEARER",
    "sasl__oauthbearer__token__endpoint__url": "https://issuer/token",
    "sasl__oauthbearer__client__credentials__client__id": "node",
    "listener__name__inner__oauthbearer__sasl__jaas__config": f'{OAUTHBEARER_MODULE} required clientSecret="s";',
    "listener__name__controller__oauthbearer__sasl__jaas__config": f'{OAUTHBEARER_MODULE} required clientSecret="s";',
}


def test_nodes_log_in_to_each_other_with_tokens_of_one_endpoint() -> None:
    made = logins(**BY_TOKENS)
    [tokens] = made.tokens
    for listener in ("INNER", "CONTROLLER"):
        login = made.towards(listener)
        assert login is not None
        assert (login.mechanism, login.username, login.tokens) == ("OAUTHBEARER", "node", tokens)
    assert tokens.endpoint.client_secret == "s"
    assert made.towards("CLIENTS") is None
    other = logins(**BY_TOKENS, listener__name__inner__oauthbearer__sasl__oauthbearer__scope="inner")
    assert [each.endpoint.scope for each in other.tokens] == ["inner", ""]


def test_an_unusable_token_login_configuration_is_refused() -> None:
    with refused_as("with which this node logs in to other nodes: sasl.oauthbearer.token.endpoint.url has to"):
        logins(**{**BY_TOKENS, "sasl__oauthbearer__token__endpoint__url": None})
    with refused_as("client.id and .secret are missing"):
        logins(**{**BY_TOKENS, "sasl__oauthbearer__client__credentials__client__id": None})
    with refused_as("tokens that nobody signed are not made"):
        logins(**BY_TOKENS, sasl__login__callback__handler__class="a.B")
    with refused_as("options have no effect"):
        module = f'{OAUTHBEARER_MODULE} required clientId="a";'
        logins(**BY_TOKENS, listener__name__clients__oauthbearer__sasl__jaas__config=module)
    with refused_as("Use PLAIN or OAUTHBEARER"):
        logins(**{**BY_TOKENS, "sasl__mechanism__controller__protocol": "SCRAM-SHA-256"})
