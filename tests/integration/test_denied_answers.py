"""What clients hear that may do little: field by field what Apache Kafka tells them, in the oldest and the newest
version of each API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from jepsen.java.kafka import ApacheKafka
from kraft.client.admin import acls, groups, topics
from kraft.client.cluster import Cluster
from kraft.client.connection import Disconnected, connect
from kraft.client.errors import check
from kraft.common.errors import ProtocolError
from kraft.common.ids import TopicPartition
from kraft.handlers.all_handlers import broker_registry
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.security.acls import AccessControlEntry, Operation, PatternType, Permission, ResourceKind
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from kraft.world.ports import Login, SecuredWorld, World
from kraft.world.real import RealWorld
from tests.capabilities import require_capability
from tests.integration.denied_requests import HIDDEN, HIDDEN_GROUP, SHOWN, SHOWN_GROUP, requests
from tests.vectors.masks import Masks
from tests.vectors.plain import from_message, message_class, to_message

pytestmark = pytest.mark.java
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
ID = ResourceKind.TRANSACTIONAL_ID
ANSWER_SECONDS_MAX: Final = 10.0
EVERY_VERSION: Final = "nobody"
"""Who asks in every version. Others ask in the oldest and the newest."""
MOVING: Final = ("partition_size", "offset_lag", "log_end_offset", "high_watermark")
"""What is the node's own affair, or changes from one request to the next."""
KAFKA_IS_SILENT: Final = "DescribeUserScramCredentials v0 all"
"""Apache Kafka fails to make the refusal, and does not answer."""
GRANTS: Final[dict[str, tuple[tuple[int, str, int], ...]]] = {
    "nobody": (),
    "owner": ((TOPIC, SHOWN, Operation.ALL), (GROUP, SHOWN_GROUP, Operation.ALL), (ID, "shown-id", Operation.ALL)),
    "reader": ((TOPIC, HIDDEN, Operation.READ), (GROUP, SHOWN_GROUP, Operation.READ)),
    "watcher": ((CLUSTER, "kafka-cluster", Operation.DESCRIBE), (GROUP, HIDDEN_GROUP, Operation.DESCRIBE)),
    "writer": ((TOPIC, HIDDEN, Operation.WRITE), (ID, "hidden-id", Operation.DESCRIBE)),
    "maker": ((CLUSTER, "kafka-cluster", Operation.CREATE), (TOPIC, SHOWN, Operation.DESCRIBE)),
    "alterer": ((CLUSTER, "kafka-cluster", Operation.ALTER), (TOPIC, HIDDEN, Operation.ALTER)),
    "keeper": (
        (CLUSTER, "kafka-cluster", Operation.DESCRIBE_CONFIGS),
        (TOPIC, HIDDEN, Operation.DESCRIBE_CONFIGS),
        (GROUP, SHOWN_GROUP, Operation.DESCRIBE),
    ),
}
"""What each user may do: kind of resource, its name, operation."""


def settings(port: int) -> dict[str, str]:
    users = " ".join(f'user_{name}="p"' for name in ("admin", *GRANTS))
    return {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (f'{PLAIN} required username="admin" password="p" {users};'),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        # On a busy machine a member that was made for one of them would be gone before the other is asked.
        "group.consumer.max.session.timeout.ms": "600000",
        "group.consumer.session.timeout.ms": "600000",
    }


def world_of(user: str) -> World:
    return SecuredWorld(RealWorld(), None, Login(mechanism="PLAIN", username=user, password="p"))


def in_order(value: Any) -> Any:
    """With every list sorted: the order of answers means nothing."""
    if isinstance(value, dict):
        return {name: in_order(each) for name, each in value.items()}
    return sorted(map(in_order, value), key=repr) if isinstance(value, list) else value


async def prepare(address: tuple[str, int]) -> dict[str, bytes]:
    """Topics, groups and entries. Returns the topics' ids."""
    async with Cluster(world_of("admin"), [address]) as cluster:
        for name in (HIDDEN, SHOWN):
            await topics.create_topic(cluster, name, partitions=1, replication_factor=1)
        for group in (HIDDEN_GROUP, SHOWN_GROUP):
            offsets = {TopicPartition(name, 0): 0 for name in (HIDDEN, SHOWN)}
            await groups.commit_offsets(cluster, group, offsets)
        entries = [
            AccessControlEntry(kind, name, PatternType.LITERAL, f"User:{user}", "*", operation, Permission.ALLOW)
            for user, grants in GRANTS.items()
            for kind, name, operation in grants
        ]
        await acls.create_acls(cluster, entries)

        async def is_ready() -> None:
            """A first block of producer ids has come, and the topic of transactions is made."""
            check((await cluster.call(InitProducerIdRequest(transactional_id=None))).error_code, "producer ids")
            find = FindCoordinatorRequest(key_type=1, coordinator_keys=["shown-id"])
            check((await cluster.call(find)).coordinators[0].error_code, "transactions")

        await cluster.retrying(is_ready)
        return {each.name: bytes(each.topic_id) for each in await topics.describe_topics(cluster, [HIDDEN, SHOWN])}


async def answers(address: tuple[str, int], user: str, ids: dict[str, bytes]) -> dict[str, Any]:
    """By API, version and name of the request."""
    found: dict[str, Any] = {}
    served = broker_registry()
    saved = {f"id-{name}": topic_id for name, topic_id in ids.items()}
    for name, api, body in requests(ids):
        cls = message_class(f"{api}Request")
        handler = served.get(cls.API_KEY)
        assert handler is not None, api
        served_versions = range(handler.min_version, handler.max_version + 1)
        for version in served_versions if user == EVERY_VERSION else sorted({served_versions[0], served_versions[-1]}):
            place = f"{api} v{version} {name}"
            try:
                async with connect(world_of(user), *address) as connection:
                    low, high = connection.versions.get(cls.API_KEY, (0, -1))
                    if not low <= version <= high:
                        continue
                    answer = await connection.call(
                        to_message(cls, body, version), version=version, timeout=ANSWER_SECONDS_MAX
                    )
                    found[place] = in_order(Masks(saved, MOVING).of(from_message(answer, version)))
            except TimeoutError:
                found[place] = "no answer"
            except Disconnected:
                found[place] = "closed"
            except ProtocolError:
                continue  # Topics have no ids in the oldest version.
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """Addresses of a node of ours and one of Apache Kafka with the same users and entries."""
    require_capability("java17")
    require_capability("mvn")
    directory: Path = tmp_path_factory.mktemp("denied")
    port = free_ports(2)[0]
    kafka = ApacheKafka(directory / "kafka", port=port, controller_port=port + 1, settings=settings(port))
    ours = [word for key, value in settings(0).items() if key != "listeners" for word in ("--set", f"{key}={value}")]
    listening = "CLIENTS://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    with (
        kafka,
        NodeProcess(
            directory / "ours", *ours, "--set", f"listeners={listening}", listen=None, controller_listen=None
        ) as node,
    ):
        host, _, own_port = (
            node.ready["kafka"].rpartition(":") if "kafka" in node.ready else node.bootstrap.rpartition(":")
        )
        yield (host, int(own_port)), ("127.0.0.1", port)


def test_who_lacks_rights_hears_what_apache_kafka_tells(both: tuple[tuple[str, int], tuple[str, int]]) -> None:
    async def compare() -> list[str]:
        ids = [await prepare(address) for address in both]
        differences = []
        for user in GRANTS:
            ours, theirs = [await answers(address, user, own) for address, own in zip(both, ids, strict=True)]
            assert len(ours) > 100
            differences += [
                f"{user}: {place}\n  ours   {ours.get(place)}\n  theirs {theirs.get(place)}"
                for place in sorted({*ours, *theirs})
                if ours.get(place) != theirs.get(place) and place != KAFKA_IS_SILENT
            ]
        return differences

    differences = trio.run(compare)
    assert not differences, "\n".join(differences)
