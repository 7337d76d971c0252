"""Asks everything as everybody, and keeps what was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import trio

from jepsen.java.kafka import ApacheKafka
from kraft.admin import acls, groups, topics
from kraft.admin.errors import check
from kraft.common.errors import ProtocolError
from kraft.common.ids import TopicPartition
from kraft.handlers.all_handlers import broker_registry, controller_registry
from kraft.handlers.registry import Registry
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.connection import ClientConnection, Disconnected, connect
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from kraft.world.ports import Login, SecuredWorld, World
from kraft.world.real import RealWorld
from tests.vectors.compare import from_text, to_text
from tests.vectors.denied.broker_requests import HIDDEN, HIDDEN_GROUP, SHOWN, SHOWN_GROUP, Body, requests
from tests.vectors.denied.controller_requests import controller_requests
from tests.vectors.denied.principals import ADMIN, PRINCIPALS, SHOWN_ID
from tests.vectors.masks import Masks
from tests.vectors.plain import from_message, message_class, to_message

RECORDED: Final = Path(__file__).parent / "recorded.json"
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
ANSWER_SECONDS_MAX: Final = 10.0
MOVING: Final = ("partition_size", "offset_lag", "log_end_offset", "high_watermark")
"""What is the node's own affair, or changes from one request to the next."""
KAFKA_IS_SILENT: Final = ("DescribeUserScramCredentials", "all")
"""Apache Kafka fails to make the refusal, and does not answer."""
CHANGES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("DeleteTopics", "by name"): ("topic-delete", "denied", "all"),
    ("DeleteTopics", "by id"): ("topic-delete", "denied", "all"),
    ("DeleteGroups", "both"): ("group-delete", "all"),
    ("Metadata", "by name"): ("denied", "all"),
    ("Metadata", "to be made"): ("denied", "all"),
    ("ControllerRegistration", "one"): ("cluster-cluster-action", "denied", "all"),
}
"""By API and request: who has the right, and would change what others are asked about."""
DOORS: Final[dict[str, tuple[Callable[[], Registry], Callable[[dict[str, bytes]], list[tuple[str, str, Body]]]]]] = {
    # Apache Kafka serves the requests of client metrics only with a plugin, which is not there. They need no right.
    "broker": (lambda: broker_registry(serves_telemetry=False), requests),
    "controller": (controller_registry, controller_requests),
}
"""Each listener, what it serves, and what is asked there."""
Address = tuple[str, int]
Matrix = dict[str, dict[str, list[Any]]]
"""The answers, in a list each: by listener, API and request, and by principal and version."""


def settings(port: int, controller_port: int) -> dict[str, str]:
    users = " ".join(f'user_{name}="p"' for name in (ADMIN, *PRINCIPALS))
    jaas = f'{PLAIN} required username="{ADMIN}" password="p" {users};'
    return {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "listeners": f"CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
        "delegation.token.secret.key": "s",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        # Members that were made for one principal are there for the next one, however long that takes.
        "group.consumer.max.session.timeout.ms": "600000",
        "group.consumer.session.timeout.ms": "600000",
    }


@contextmanager
def apache_kafka(directory: Path) -> Iterator[dict[str, Address]]:
    """An empty Apache Kafka. Its addresses by listener."""
    port, controller_port = free_ports(2)
    made = settings(port, controller_port)
    with ApacheKafka(directory, port=port, controller_port=controller_port, settings=made) as kafka:
        yield {"broker": ("127.0.0.1", kafka.port), "controller": ("127.0.0.1", kafka.controller_port)}


@contextmanager
def our_node(directory: Path) -> Iterator[dict[str, Address]]:
    """An empty node of ours. Its addresses by listener."""
    config = directory.with_suffix(".properties")
    config.write_text("".join(f"{key}={value}\n" for key, value in settings(0, 0).items()))
    with NodeProcess(directory, "--config", str(config), listen=None, controller_listen=None) as node:
        addresses = {"broker": node.ready["kafka"], "controller": node.ready["controller"]}
        yield {name: (text.rpartition(":")[0], int(text.rpartition(":")[2])) for name, text in addresses.items()}


def world_of(user: str) -> World:
    return SecuredWorld(RealWorld(), None, Login(mechanism="PLAIN", username=user, password="p"))


async def prepare(address: Address) -> dict[str, bytes]:
    """Topics, groups and entries. Returns the topics' ids."""
    async with Cluster(world_of(ADMIN), [address]) as cluster:
        for name in (HIDDEN, SHOWN):
            await topics.create_topic(cluster, name, partitions=1, replication_factor=1)
        for group in (HIDDEN_GROUP, SHOWN_GROUP):
            offsets = {TopicPartition(name, 0): 0 for name in (HIDDEN, SHOWN)}
            await groups.commit_offsets(cluster, group, offsets)
        await acls.create_acls(cluster, [grant.entry(user) for user, grants in PRINCIPALS.items() for grant in grants])

        async def is_ready() -> None:
            """A first block of producer ids has come, and the topic of transactions is made."""
            check((await cluster.call(InitProducerIdRequest(transactional_id=None))).error_code, "producer ids")
            find = FindCoordinatorRequest(key_type=1, coordinator_keys=[SHOWN_ID])
            check((await cluster.call(find)).coordinators[0].error_code, "transactions")

        await cluster.retrying(is_ready)
        return {each.name: bytes(each.topic_id) for each in await topics.describe_topics(cluster, [HIDDEN, SHOWN])}


class Asker:
    """One principal at one listener, with a connection that is recreated once it was closed."""

    def __init__(self, user: str, address: Address) -> None:
        self.user = user
        self._address = address
        self._stack = AsyncExitStack()
        self._connection: ClientConnection | None = None

    async def __aenter__(self) -> Asker:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    async def _leave(self) -> None:
        self._connection = None
        await self._stack.aclose()

    async def ask(self, api: str, body: Body, version: int, masks: Masks) -> Any:
        """The answer as plain values, or what became of the connection; None where the version cannot say it, or is
        not served."""
        cls = message_class(f"{api}Request")
        if self._connection is None:
            self._connection = await self._stack.enter_async_context(connect(world_of(self.user), *self._address))
        low, high = self._connection.versions.get(cls.API_KEY, (0, -1))
        if not low <= version <= high:
            return None
        try:
            request = to_message(cls, body, version)
            answer = await self._connection.call(request, version=version, timeout=ANSWER_SECONDS_MAX)
        except TimeoutError:
            outcome: Any = "no answer"
        except Disconnected:
            outcome = "closed"
        except ProtocolError:
            outcome = None  # Topics have no ids in the oldest version.
        else:
            return in_order(masks.of(from_message(answer, version)))
        await self._leave()
        return outcome


def in_order(value: Any) -> Any:
    """With every list sorted: the order of answers means nothing."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    return sorted(map(in_order, value), key=repr) if isinstance(value, list) else value


async def ask_all(addresses: dict[str, Address]) -> Matrix:
    """Everybody asks everything, one after another."""
    ids = await prepare(addresses["broker"])
    matrix: Matrix = {}
    for user in PRINCIPALS:
        for door, address in addresses.items():
            async with Asker(user, address) as asker:
                await _ask_at(door, asker, ids, matrix)
    return matrix


async def _ask_at(door: str, asker: Asker, ids: dict[str, bytes], matrix: Matrix) -> None:
    registry, asked = DOORS[door]
    served, masks = registry(), Masks({f"id-{name}": topic_id for name, topic_id in ids.items()}, MOVING)
    for name, api, body in asked(ids):
        if asker.user in CHANGES.get((api, name), ()) or (api, name) == KAFKA_IS_SILENT:
            continue
        handler = served.get(message_class(f"{api}Request").API_KEY)
        assert handler is not None, api
        versions = range(handler.min_version, handler.max_version + 1)
        for version in versions:
            answer = await asker.ask(api, body, version, masks)
            if answer is not None:
                matrix.setdefault(f"{door}/{api} {name}", {})[f"{asker.user} v{version}"] = [answer]


def record(directory: Path) -> int:
    """Write what Apache Kafka answers. Returns the number of answers."""
    with apache_kafka(directory) as addresses:
        matrix = trio.run(ask_all, addresses)
    RECORDED.write_text(to_text(matrix))
    return sum(map(len, matrix.values()))


def compare(directory: Path) -> list[str]:
    """What a node of ours answers otherwise than was recorded."""
    with our_node(directory) as addresses:
        return differing(recorded(), trio.run(ask_all, addresses))


def recorded() -> Matrix:
    return from_text(RECORDED.read_text())


def differing(theirs: Matrix, ours: Matrix) -> list[str]:
    """What differs, in a sentence each."""
    return [
        f"{place} {who}\n  ours   {ours.get(place, {}).get(who)}\n  theirs {theirs.get(place, {}).get(who)}"
        for place in dict.fromkeys((*theirs, *ours))
        for who in dict.fromkeys((*theirs.get(place, {}), *ours.get(place, {})))
        if _comparable(place, theirs.get(place, {}).get(who)) != _comparable(place, ours.get(place, {}).get(who))
    ]


def _comparable(place: str, answer: Any) -> Any:
    """The answer without the message of a refused change to a broker's configs: Kafka 4.4 sends none, ours has one."""
    if "AlterConfigs " not in place or not isinstance(answer, list):
        return answer
    return [
        {
            **each,
            "responses": [
                {**one, "error_message": None} if one["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED else one
                for one in each.get("responses", ())
            ],
        }
        if isinstance(each, dict)
        else each
        for each in answer
    ]
