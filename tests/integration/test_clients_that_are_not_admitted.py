"""The Python client where waiting does not help: a wrong password, a mechanism that is not served, a certificate that
is not trusted, topics and groups that are not allowed. A poll raises at once, as Java's does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import trio

from kraft.admin import topics
from kraft.clients import (
    CLASSIC,
    CONSUMER,
    EARLIEST,
    Consumer,
    TopicPartition,
    aio,
    connect,
    open_group_consumer,
    open_producer,
)
from kraft.common.errors import ApiError
from kraft.protocol.error_codes import ErrorCode
from kraft.rpc_client.connection import NotAdmitted
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from tests.certificates import certificates

pytestmark = pytest.mark.timeout(120)

AT_ONCE_SECONDS: Final = 10.0
F0: Final = TopicPartition("flights", 0)
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
NODE: Final = """\
listeners=SASL_PLAINTEXT://127.0.0.1:{sasl},SSL://127.0.0.1:{ssl},CONTROLLER://127.0.0.1:0
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={plain} required \\
  username="node" password="n" user_node="n" user_alice="a";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node;User:ANONYMOUS
ssl.keystore.type=PEM
ssl.keystore.location={directory}/node.pem
group.initial.rebalance.delay.ms=0
"""
Config = Mapping[str, str]
Poll = Callable[[], Awaitable[object]]


class Guarded(NamedTuple):
    node: NodeProcess
    directory: Path
    sasl: str
    ssl: str

    def login(self, user: str = "node", password: str = "n", mechanism: str = "PLAIN") -> Config:
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        }

    def trusting(self, authority: str) -> Config:
        (self.directory / f"{len(authority)}.pem").write_text(authority)
        location = str(self.directory / f"{len(authority)}.pem")
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": location,
        }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = certificates().write(tmp_path_factory.mktemp("guarded"))
    sasl, ssl = free_ports(2)
    text = NODE.format(sasl=sasl, ssl=ssl, plain=PLAIN, directory=directory)
    (directory / "node.properties").write_text(text)
    arguments = ("--config", str(directory / "node.properties"))
    with NodeProcess(directory / "node", *arguments, listen=None, controller_listen=None) as node:
        found = Guarded(node, directory, f"127.0.0.1:{sasl}", f"127.0.0.1:{ssl}")

        async def prepare() -> None:
            async with connect(found.sasl, config=found.login()) as cluster:
                await topics.create_topic(cluster, "flights")

        trio.run(prepare)
        yield found


async def raised_by(poll: Poll) -> Exception:
    """What a poll raised, of as many as go into the time. Nothing is waited for between two."""
    end = time.monotonic() + AT_ONCE_SECONDS
    while time.monotonic() < end:
        try:
            await poll()
        except Exception as problem:  # noqa: BLE001 - the test looks at it.
            return problem
    return AssertionError("polls raise nothing")


async def trio_outcome(bootstrap: str, config: Config, protocol: str | None) -> Exception:
    async with connect(bootstrap, config=config) as cluster:
        if protocol is None:
            consumer = Consumer(cluster, reset=EARLIEST)
            consumer.assign({F0: 0})
            return await raised_by(lambda: consumer.poll(0.2))
        async with open_group_consumer(cluster, "g", ["flights"], reset=EARLIEST, protocol=protocol) as member:
            return await raised_by(lambda: member.poll(0.2))


async def asyncio_outcome(bootstrap: str, config: Config, protocol: str | None) -> Exception:
    async with aio.connect(bootstrap, config=config) as cluster:
        consumer: aio.Consumer | aio.GroupConsumer
        if protocol is None:
            consumer = cluster.consumer({F0: 0}, reset=EARLIEST)
        else:
            consumer = cluster.group_consumer("g", ["flights"], reset=EARLIEST, protocol=protocol)
        async with consumer:
            return await raised_by(lambda: consumer.poll(0.2))


Outcome = Callable[[str, Config, str | None], Any]


def trio_face(bootstrap: str, config: Config, protocol: str | None) -> Exception:
    return trio.run(trio_outcome, bootstrap, config, protocol)


def asyncio_face(bootstrap: str, config: Config, protocol: str | None) -> Exception:
    return asyncio.run(asyncio_outcome(bootstrap, config, protocol))


faces = pytest.mark.parametrize("face", [trio_face, asyncio_face])
readers = pytest.mark.parametrize("protocol", [None, CLASSIC, CONSUMER], ids=["assigned", "classic", "consumer"])


@faces
@readers
def test_poll_raises_an_error_for_a_wrong_password(guarded: Guarded, face: Outcome, protocol: str | None) -> None:
    problem = face(guarded.sasl, guarded.login(password="wrong"), protocol)
    assert isinstance(problem, NotAdmitted)
    assert "the login as node failed" in str(problem)


@faces
@readers
def test_poll_raises_an_error_for_a_mechanism_that_is_not_enabled(
    guarded: Guarded, face: Outcome, protocol: str | None
) -> None:
    problem = face(guarded.sasl, guarded.login(mechanism="SCRAM-SHA-512"), protocol)
    assert isinstance(problem, NotAdmitted)
    assert "does not serve the SASL mechanism SCRAM-SHA-512" in str(problem)


@faces
@readers
def test_poll_raises_an_error_for_an_untrusted_certificate(
    guarded: Guarded, face: Outcome, protocol: str | None
) -> None:
    problem = face(guarded.ssl, guarded.trusting(certificates().stranger), protocol)
    assert isinstance(problem, NotAdmitted)
    assert "the peer's certificate is not accepted" in str(problem)


@faces
@readers
def test_poll_raises_an_error_for_an_unauthorized_topic_or_group(
    guarded: Guarded, face: Outcome, protocol: str | None
) -> None:
    problem = face(guarded.sasl, guarded.login("alice", "a"), protocol)
    assert isinstance(problem, ApiError)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if protocol is None else ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert problem.code == code


def test_send_and_admin_calls_raise_a_wrong_password_immediately(guarded: Guarded) -> None:
    async def main() -> None:
        async with connect(guarded.sasl, config=guarded.login(password="wrong")) as cluster:

            async def produce() -> None:
                async with open_producer(cluster) as producer:
                    await producer.send("flights", b"1")

            for act in (produce, lambda: topics.list_topics(cluster)):
                began = time.monotonic()
                with pytest.raises(NotAdmitted, match="the login as node failed"):
                    await act()
                assert time.monotonic() - began < AT_ONCE_SECONDS

    trio.run(main)
