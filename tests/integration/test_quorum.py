"""Quorums of real processes: voters that come and go, roles apart, kraft.version raised."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import trio
from confluent_kafka.admin import NewTopic

from jepsen.three_nodes import until
from kraft.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.rpc_client.connection import connect
from kraft.testing.foreign.librdkafka import AdminClient, Producer
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from kraft.testing.process_cluster import CLUSTER_ID
from kraft.world.real import RealWorld

METADATA = DescribeQuorumRequest(
    topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
)


def ask(node: NodeProcess, request: Any) -> Any:
    """The answer of a node's broker, whoever it has to hand the request to."""
    host, _, port = node.bootstrap.rpartition(":")

    async def call() -> Any:
        async with connect(RealWorld(log_sink=lambda event: None), host, int(port)) as connection:
            return await connection.call(request)

    return trio.run(call)


def quorum(node: NodeProcess) -> Any:
    return ask(node, METADATA).topics[0].partitions[0]


def voters(node: NodeProcess) -> list[int]:
    return [voter.replica_id for voter in quorum(node).current_voters]


def test_voters_are_added_and_removed(tmp_path: Path) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(NodeProcess(tmp_path / "1", "--node-id", "1"))
        cluster_id, bootstrap = first.ready["cluster"], first.ready["controller"]
        joining = ("--bootstrap-controllers", bootstrap, "--cluster-id", cluster_id, "--format")
        nodes = {1: first} | {
            node: stack.enter_context(NodeProcess(tmp_path / str(node), "--node-id", str(node), *joining))
            for node in (2, 3)
        }
        assert voters(first) == [1]
        directories = {
            observer.replica_id: bytes(observer.replica_directory_id) for observer in quorum(first).observers
        }
        for node in (2, 3):
            host, _, port = nodes[node].ready["controller"].rpartition(":")
            listeners = [Listener(name="CONTROLLER", host=host, port=int(port))]
            joins = AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=10_000,
                voter_id=node,
                voter_directory_id=directories[node],
                listeners=listeners,
            )
            answer = ask(nodes[node], joins)
            assert (answer.error_code, answer.error_message) == (0, None)
        assert voters(first) == [1, 2, 3]
        first.kill()
        until(lambda: quorum(nodes[2]).leader_id in (2, 3), "nobody leads after the first voter's death")
        first.start()
        own = next(voter for voter in quorum(first).current_voters if voter.replica_id == 1)
        answer = ask(
            nodes[2],
            RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=1, voter_directory_id=own.replica_directory_id),
        )
        assert (answer.error_code, answer.error_message) == (0, None)
        assert voters(nodes[3]) == [2, 3]
        until(
            lambda: [observer.replica_id for observer in quorum(nodes[2]).observers] == [1],
            "the former voter does not observe",
        )


def test_controllers_and_brokers_run_in_separate_processes(tmp_path: Path) -> None:
    ports = free_ports(3)
    static = ("--voters", ",".join(f"{node}@127.0.0.1:{ports[node - 1]}" for node in (1, 2, 3)))
    nodes: dict[int, NodeProcess] = {}
    for node in (1, 2, 3):
        options = ("--role", "controller", "--node-id", str(node), *static, "--format", "--cluster-id", CLUSTER_ID)
        nodes[node] = NodeProcess(
            tmp_path / str(node), *options, listen=None, controller_listen=f"127.0.0.1:{ports[node - 1]}"
        )
    # Static voters stand in no log: it has the leader's word only.
    by_bootstrap = ("--bootstrap-controllers", ",".join(f"127.0.0.1:{port}" for port in ports))
    for node, knows in ((11, static), (12, by_bootstrap)):
        nodes[node] = NodeProcess(
            tmp_path / str(node), "--role", "broker", "--node-id", str(node), *knows, controller_listen=None
        )
    with ExitStack() as stack, ThreadPoolExecutor(len(nodes)) as starters:
        for running in nodes.values():
            stack.callback(running.__exit__, None, None, None)
        list(starters.map(NodeProcess.start, nodes.values()))
        admin = AdminClient({"bootstrap.servers": nodes[11].bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("before", 4, 2)])["before"].result(30)
        producer = Producer({"bootstrap.servers": nodes[12].bootstrap, "enable.idempotence": True, "log_level": 0})
        for number in range(100):
            producer.produce("before", b"%d" % number)
        assert producer.flush(30) == 0
        active = quorum(nodes[11]).leader_id
        nodes[active].kill()
        admin.create_topics([NewTopic("after", 4, 2)])["after"].result(30)
        nodes[active].start()

        upgrade = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)],
            validate_only=False,
        )
        until(
            lambda: ask(nodes[12], upgrade).error_code == 0,
            "kraft.version is not raised once every voter has told that it knows it",
        )
        assert sorted(voters(nodes[11])) == [1, 2, 3]
        assert all(bytes(voter.replica_directory_id) != bytes(16) for voter in quorum(nodes[11]).current_voters)
        for node in (12, 11, 1, 2, 3):
            assert nodes[node].stop() == 0
