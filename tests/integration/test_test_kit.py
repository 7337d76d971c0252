"""What users' tests do to a cluster in their own process: nodes are frozen, networks cut, disks filled, and each
mistake is answered with a sentence."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from jepsen.java.kafka import tool
from kraft.common.errors import ApiError
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.rpc_client.connection import connect
from kraft.rpc_client.errors import DeadlinePassed
from kraft.testing.cluster_security import Security
from kraft.testing.cluster_thread import ClusterThread
from kraft.testing.faults.switchboard import CLIENTS, Party
from kraft.testing.local_cluster import LocalCluster
from kraft.testing.pytest_plugin import StartCluster
from kraft.world.real import RealWorld
from tests.capabilities import require_capability

QUICK = {"broker_session_timeout_ms": 2000, "broker_heartbeat_interval_ms": 200}
TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster(module_kraft_cluster: StartCluster) -> ClusterThread:
    """Each test leaves it whole."""
    started = module_kraft_cluster(3, settings=QUICK)
    started.create_topic(TOPIC, min_insync_replicas=2)
    return started


@pytest.fixture
def topic(cluster: ClusterThread, request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub(r"\W+", "-", request.node.name)
    cluster.create_topic(name, min_insync_replicas=2)
    yield name
    cluster.heal()  # What fails alone is to be red alone.
    cluster.delete_topic(name)


def texts(cluster: ClusterThread, topic: str) -> list[str]:
    return [record.text for record in cluster.consume(topic)]


# Topics, records, and who does what


def test_records_are_read_as_they_were_written(cluster: ClusterThread) -> None:
    cluster.create_topic("kinds", 2, cleanup_policy="compact", **{"retention.ms": 1000})
    stored = cluster.produce("kinds", "text", b"\xff", None, key="k", partition=1, headers={"trace": "7", "none": None})
    assert [(each.partition, each.offset) for each in stored] == [(1, 0), (1, 1), (1, 2)]
    found = cluster.consume("kinds", 3, partition=1)
    assert [(each.offset, each.key, each.value) for each in found] == [
        (0, b"k", b"text"),
        (1, b"k", b"\xff"),
        (2, b"k", None),
    ]
    assert found[0].headers == (("trace", b"7"), ("none", None))
    assert found[0].text == "text"
    assert cluster.consume("kinds", partition=0) == []
    cluster.delete_topic("kinds")


def test_configurations_of_a_group_are_known_to_every_node() -> None:
    async def main() -> None:
        async with LocalCluster(2) as own:
            isolation = {"share.isolation.level": "read_committed"}
            await own.configure_group("workers", share_auto_offset_reset="earliest", **isolation)
            for node in own.node_ids:
                resources = own.node(node).shared.loader.image.configs.resources.items()
                [known] = [dict(configs.items()) for resource, configs in resources if resource.name == "workers"]
                assert known == {"share.auto.offset.reset": "earliest", **isolation}
            with pytest.raises(ApiError, match=r"share\.nothing"):
                await own.configure_group("workers", share_nothing=1)

    trio.run(main)


def test_a_missing_number_of_records_is_reported(cluster: ClusterThread, topic: str) -> None:
    cluster.produce(topic, "one")
    with pytest.raises(TimeoutError, match=rf"1 records of {topic} were read in 0\.5 s, not 2"):
        cluster.consume(topic, 2, seconds=0.5)


def test_a_killed_leader_coordinator_or_controller_is_replaced(cluster: ClusterThread, topic: str) -> None:
    for find in (
        lambda **other: cluster.leader(topic, **other),
        cluster.controller,
        lambda **other: cluster.coordinator("g", **other),
    ):
        first = find()
        cluster.kill(first)
        assert cluster.running == tuple(node for node in cluster.running if node != first)
        assert find() != first
        assert find(other_than=first) in cluster.running
        cluster.start(first)


# Faults


@pytest.mark.parametrize("with_clients", [False, True])
def test_an_isolated_leader_is_replaced_and_its_pending_records_are_not_acknowledged(
    cluster: ClusterThread, topic: str, with_clients: bool
) -> None:
    cluster.produce(topic, "before")
    cut = cluster.leader(topic)
    clients: list[Party] = [CLIENTS] if with_clients else []
    cluster.partition([cut], [*(node for node in cluster.node_ids if node != cut), *clients])
    assert cluster.leader(topic, other_than=cut) != cut
    cluster.produce(topic, "during")
    cluster.heal()
    cluster.produce(topic, "after")
    assert texts(cluster, topic) == ["before", "during", "after"]


def test_an_open_connection_stalls_during_a_partition_and_continues_after_healing() -> None:
    async def main() -> None:
        async with LocalCluster(1) as cluster:
            host, _, port = cluster.bootstrap.rpartition(":")
            async with connect(RealWorld(log_sink=lambda event: None), host, int(port)) as connection:
                for cut in (
                    lambda: cluster.partition([1], ["clients"]),
                    lambda: cluster.partition([1], ["clients"], one_way=True),
                    lambda: cluster.partition(["clients"], [1], one_way=True),
                ):
                    await connection.call(MetadataRequest(topics=[]))
                    await assert_silent_while(connection, cut, cluster.heal)
                await assert_silent_while(connection, lambda: cluster.pause(1), lambda: cluster.resume(1))

    trio.run(main)


async def assert_silent_while(connection: Any, cut: Callable[[], None], mend: Callable[[], None]) -> None:
    answers: list[object] = []

    async def ask() -> None:
        answers.append(await connection.call(MetadataRequest(topics=[])))

    async with trio.open_nursery() as nursery:
        cut()
        nursery.start_soon(ask)
        await trio.sleep(0.3)
        assert not answers
        mend()
    assert len(answers) == 1


def test_a_follower_in_a_one_way_partition_leaves_the_in_sync_set(cluster: ClusterThread, topic: str) -> None:
    """The leader takes it out of the in-sync set, since no Fetch comes."""
    leader = cluster.leader(topic)
    deaf, other = (node for node in cluster.node_ids if node != leader)
    cluster.partition([deaf], [leader], one_way=True)
    cluster.kill(other)
    with pytest.raises((DeadlinePassed, ApiError)):
        cluster.produce(topic, "not in sync", seconds=2)
    cluster.heal()
    cluster.start(other)
    cluster.produce(topic, "in sync")
    assert texts(cluster, topic)[-1] == "in sync"


def test_a_paused_node_loses_its_leaderships_and_returns(cluster: ClusterThread, topic: str) -> None:
    paused = cluster.leader(topic)
    cluster.pause(paused)
    cluster.produce(topic, "during")
    assert cluster.leader(topic) != paused
    cluster.resume(paused)
    rest = [node for node in cluster.node_ids if node not in (paused, cluster.leader(topic))]
    cluster.kill(*rest)
    cluster.produce(topic, "with it")
    cluster.start(*rest)
    assert texts(cluster, topic) == ["during", "with it"]


def test_timers_of_a_paused_node_fire_only_after_it_resumes() -> None:
    async def main() -> None:
        async with LocalCluster(1) as cluster:
            clock = cluster.node(1).world.clock
            struck: list[str] = []

            async def outlast(name: str, seconds: float) -> None:
                with clock.move_on_after(seconds) as scope:
                    await trio.sleep(60)
                if scope.cancelled_caught:
                    struck.append(name)

            async def sleep() -> None:
                await clock.sleep(0.1)
                struck.append("sleep")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(outlast, "begun before", 0.1)
                nursery.start_soon(sleep)
                await trio.testing.wait_all_tasks_blocked()
                cluster.pause(1)
                nursery.start_soon(outlast, "begun meanwhile", 0.1)
                await trio.sleep(0.3)
                assert not struck
                cluster.resume(1)
            assert sorted(struck) == ["begun before", "begun meanwhile", "sleep"]

    trio.run(main)


def test_a_paused_node_can_be_killed(cluster: ClusterThread, topic: str) -> None:
    cluster.pause(1)
    cluster.kill(1)
    cluster.start(1)
    cluster.produce(topic, "well")
    assert texts(cluster, topic) == ["well"]


def test_a_delay_slows_each_response_by_its_length() -> None:
    async def main() -> None:
        async with LocalCluster(1) as cluster:
            host, _, port = cluster.bootstrap.rpartition(":")
            async with connect(RealWorld(log_sink=lambda event: None), host, int(port)) as connection:
                cluster.delay(0.2)
                begun = trio.current_time()
                await connection.call(MetadataRequest(topics=[]))
                assert trio.current_time() - begun >= 0.2

    trio.run(main)


def test_a_full_disk_rejects_writes_until_space_is_free(kraft_cluster: StartCluster) -> None:
    cluster = kraft_cluster(1)
    cluster.create_topic(TOPIC)
    cluster.produce(TOPIC, "before")
    cluster.full_disk(1)
    with pytest.raises(DeadlinePassed, match="not acknowledged within 1 s"):
        cluster.produce(TOPIC, "during", seconds=1)
    assert texts(cluster, TOPIC) == ["before"]
    cluster.mend_disk(1)
    cluster.produce(TOPIC, "after")
    assert texts(cluster, TOPIC) == ["before", "after"]


def test_a_node_whose_disk_fails_stops_and_is_started_again(cluster: ClusterThread, topic: str) -> None:
    failed = cluster.leader(topic)
    cluster.failing_disk(failed)
    cluster.produce(topic, "without it")
    assert cluster.leader(topic, other_than=failed) != failed
    with pytest.raises(RuntimeError, match=rf"node {failed} is down: .*Input/output error"):
        cluster.kill(failed)
    cluster.mend_disk(failed)
    cluster.start(failed)
    cluster.produce(topic, "with it")
    assert texts(cluster, topic) == ["without it", "with it"]


# Security


SECURED: tuple[Security, ...] = ("tls", "sasl_plaintext", "sasl_ssl")


@pytest.mark.parametrize("security", SECURED)
def test_clients_of_each_language_log_in_and_faults_work_in_secured_clusters(
    kraft_cluster: StartCluster, security: Security
) -> None:
    cluster = kraft_cluster(3, security=security, settings=QUICK)
    cluster.create_topic(TOPIC, min_insync_replicas=2)
    assert send(cluster.client_settings("librdkafka", "alice"), "librdkafka") is None
    cut = cluster.leader(TOPIC)
    cluster.partition([cut], [*(node for node in cluster.node_ids if node != cut), CLIENTS])
    cluster.produce(TOPIC, "during")
    cluster.heal()
    cluster.kill(cut)
    cluster.start(cut)

    async def read() -> list[bytes | None]:
        async with AIOKafkaConsumer(
            TOPIC, auto_offset_reset="earliest", **cluster.client_settings("aiokafka", "alice")
        ) as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 30)).value for _ in range(2)]

    assert asyncio.run(read()) == [b"librdkafka", b"during"]


@pytest.mark.java
def test_java_tools_log_in_with_the_client_settings(kraft_cluster: StartCluster, tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    for security in SECURED:
        cluster = kraft_cluster(1, security=security)
        settings = cluster.client_settings("java", "alice")
        (tmp_path / "client").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        at = ("--bootstrap-server", cluster.bootstrap, "--command-config", str(tmp_path / "client"))
        assert "Created topic java." in tool("topics", *at, "--create", "--topic", "java").stdout


@pytest.mark.parametrize("security", SECURED)
def test_with_an_authorizer_a_user_needs_an_acl(kraft_cluster: StartCluster, security: Security) -> None:
    cluster = kraft_cluster(1, security=security, users=["alice", "bob"], authorizer=True)
    assert cluster.users == ("admin", "alice", "bob")
    cluster.create_topic(TOPIC)
    alice, bob = (cluster.client_settings("librdkafka", user) for user in ("alice", "bob"))
    admin = AdminClient(cluster.client_settings("librdkafka", "admin"))
    writes = AclBinding(
        ResourceType.TOPIC,
        TOPIC,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([writes]).values():
        future.result(30)
    assert send(alice, "by alice") is None
    assert send(bob, "by bob") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert texts(cluster, TOPIC) == ["by alice"]


def test_an_unknown_user_is_refused(kraft_cluster: StartCluster) -> None:
    cluster = kraft_cluster(1, security="sasl_ssl")
    alice = cluster.client_settings("librdkafka", "alice")
    for settings in (
        {**alice, "sasl.password": "guess"},
        {**alice, "security.protocol": "SSL"},
        {**alice, "security.protocol": "SASL_PLAINTEXT"},
    ):
        with pytest.raises(KafkaException):
            AdminClient({**settings, "log_level": 0}).list_topics(timeout=1)
    with pytest.raises(LookupError, match="there is no user bob; there are admin, alice"):
        cluster.client_settings("java", "bob")


def send(settings: dict[str, str], value: str) -> int | None:
    """The code of the error, if there is one."""
    outcomes: list[int | None] = []
    producer = Producer({**settings, "log_level": 0})
    producer.produce(TOPIC, value, on_delivery=lambda error, message: outcomes.append(error and error.code()))
    assert producer.flush(30) == 0
    return outcomes[0]


# The HTTP admin


def test_the_admin_is_served_on_request_and_again_after_a_kill(kraft_cluster: StartCluster) -> None:
    cluster = kraft_cluster(1, admin=True)
    url = cluster.admin_url
    for _ in range(2):
        with urllib.request.urlopen(f"{url}/v1/cluster/health", timeout=30) as answer:
            assert "is_healthy" in json.load(answer)
        cluster.kill(1)
        with pytest.raises(RuntimeError, match="no node runs"):
            _ = cluster.admin_url
        cluster.start(1)
        assert cluster.admin_url == url


def test_no_admin_module_is_loaded_without_the_admin() -> None:
    program = (
        "import sys\nfrom kraft.testing.cluster_thread import ClusterThread\n"
        "with ClusterThread(1) as cluster:\n    cluster.create_topic('t'); cluster.consume('t')\n"
        "print([name for name in ('fastapi', 'uvicorn', 'pydantic', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


# Loops


def test_asyncio_and_trio_coroutines_use_the_same_methods(cluster: ClusterThread, topic: str) -> None:
    async def with_asyncio() -> None:
        ours = cluster.asyncio
        leader = await ours.leader(topic)
        await ours.kill(leader)
        await ours.produce(topic, "a")
        await ours.start(leader)
        assert [record.text for record in await ours.consume(topic)] == ["a"]

    async def with_trio() -> None:
        async with LocalCluster(2) as own:
            await own.create_topic(TOPIC, 3)
            await own.produce(TOPIC, "a", partition=await own.coordinator("g"))
            await own.stop(await own.controller())
            assert [record.text for record in await own.consume(TOPIC, 1)] == ["a"]

    asyncio.run(with_asyncio())
    trio.run(with_trio)


# Mistakes


@pytest.mark.parametrize(
    ("mistake", "kind", "sentence"),
    [
        (lambda cluster: cluster.kill(7), LookupError, "there is no node 7; there are 1, 2, 3"),
        (lambda cluster: cluster.stop(0), LookupError, "there is no node 0; there are 1, 2, 3"),
        (lambda cluster: cluster.start(7), LookupError, "there is no node 7; there are 1, 2, 3"),
        (lambda cluster: cluster.start(1), RuntimeError, "node 1 runs already"),
        (lambda cluster: cluster.resume(1), RuntimeError, "node 1 is not paused"),
        (lambda cluster: cluster.full_disk(7), LookupError, "there is no node 7; there are 1, 2, 3"),
        (lambda cluster: cluster.delay(1.0, 7), LookupError, "there is no node 7; there are 1, 2, 3"),
        (lambda cluster: cluster.delay(-1.0), ValueError, "nothing comes 1 s before it is sent"),
        (lambda cluster: cluster.partition([1], [7]), LookupError, "there is no node 7; there are 1, 2, 3"),
        (lambda cluster: cluster.partition([1], [1, 2]), ValueError, "1 is in two groups"),
        (lambda cluster: cluster.partition([1], ["me"]), LookupError, "'me' is neither a node nor \"clients\""),
        (lambda cluster: cluster.partition([1]), ValueError, "a cut is between two groups at least"),
        (lambda cluster: cluster.partition([1], []), ValueError, "a group of a cut is empty"),
        (lambda cluster: cluster.leader("ordres"), LookupError, "there is no topic ordres; there are orders"),
        (lambda cluster: cluster.consume("ordres"), LookupError, "there is no topic ordres; there are orders"),
        (lambda cluster: cluster.delete_topic("ordres"), LookupError, "there is no topic ordres; there are orders"),
        (lambda cluster: cluster.leader("orders", 4), LookupError, "orders has no partition 4; it has 1, from 0 on"),
        (lambda c: c.consume("orders", partition=4), LookupError, "orders has no partition 4; it has 1, from 0 on"),
        (lambda cluster: cluster.admin_url, RuntimeError, "this cluster has no HTTP admin: start it with admin=True"),
    ],
)  # fmt: skip
def test_a_misuse_of_the_cluster_is_reported_in_one_sentence(
    cluster: ClusterThread, mistake: Callable[[ClusterThread], object], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind) as caught:
        mistake(cluster)
    assert str(caught.value) == sentence


def test_an_operation_invalid_in_a_nodes_state_is_refused(cluster: ClusterThread) -> None:
    cluster.pause(1)
    with pytest.raises(RuntimeError, match="node 1 is paused already"):
        cluster.pause(1)
    with pytest.raises(RuntimeError, match="node 1 is paused: resume it before it is stopped, or kill it"):
        cluster.stop(1)
    cluster.kill(1)
    for mistake in (cluster.kill, cluster.stop, cluster.pause, cluster.resume):
        with pytest.raises(RuntimeError, match=r"node 1 is down \(running: 2, 3\)"):
            mistake(1)
    cluster.start(1)


def test_use_before_and_after_the_with_block_is_reported(tmp_path: Path) -> None:
    cluster = ClusterThread(1, tmp_path)
    with pytest.raises(RuntimeError, match="the cluster does not serve yet: use it inside `with`"):
        cluster.kill(1)
    with cluster:
        pass
    for late in (lambda: cluster.kill(1), lambda: cluster.bootstrap, cluster.heal, lambda: cluster.produce("t", "v")):
        with pytest.raises(RuntimeError, match="the cluster is closed"):
            late()


def test_a_block_that_ends_during_faults_stops_cleanly() -> None:
    with ClusterThread(3) as cluster:
        cluster.create_topic(TOPIC)
        cluster.partition([1], [2], [3])
        cluster.delay(5.0)
        cluster.full_disk(3)
        cluster.pause(2)


@pytest.mark.parametrize("round_", [1, 2])
def test_a_session_cluster_is_shared_by_all_tests(
    session_kraft_cluster: StartCluster, round_: int, shared: list[Any]
) -> None:
    if not shared:
        shared.append(session_kraft_cluster(1))
        shared[0].create_topic(TOPIC)
    shared[0].produce(TOPIC, str(round_))
    assert len(texts(shared[0], TOPIC)) == round_


@pytest.fixture(scope="session")
def shared() -> list[Any]:
    return []
