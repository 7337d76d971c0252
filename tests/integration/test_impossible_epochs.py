"""An epoch that no election can follow: refused on the quorum's port, and repaired as docs/operations says where it is
on disk."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import NewTopic

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.vote_request import PartitionData, TopicData, VoteRequest
from kraft.rpc_client.connection import connect
from kraft.testing.foreign.librdkafka import AdminClient
from kraft.testing.node_process import NodeFailed, NodeProcess
from kraft.testing.process_cluster import ProcessCluster
from kraft.world.real import RealWorld
from tests.integration.plain_clients import Record, read_confluent, write_confluent

LAST_EPOCH = 2**31 - 1
DOCUMENT = Path(__file__).parents[2] / "docs/operations/lost-quorum.md"


def ask_for_vote(node: NodeProcess, epoch: int) -> int:
    """A stranger's Vote at the controller port; the error it is answered with."""
    part = PartitionData(replica_epoch=epoch, replica_id=99, last_offset_epoch=epoch - 1, last_offset=1 << 40)
    request = VoteRequest(topics=[TopicData(topic_name="__cluster_metadata", partitions=[part])])
    host, _, port = node.ready["controller"].rpartition(":")

    async def call() -> int:
        async with connect(RealWorld(log_sink=lambda event: None), host, int(port)) as connection:
            answer = await connection.call(request)
            return int(answer.topics[0].partitions[0].error_code)  # type: ignore[attr-defined]

    return trio.run(call)


def quorum_state(cluster: ProcessCluster, node: int) -> Path:
    return Path(cluster.nodes[node].data_directories, "__cluster_metadata-0", "quorum-state")


def epoch_in(path: Path) -> int:
    return int(json.loads(path.read_text())["leaderEpoch"])


def documented_repair(epoch: int) -> str:
    """The command of step 3."""
    (command,) = re.findall(r"^ +(sed -i .*)$", DOCUMENT.read_text(), re.MULTILINE)
    return str(command).replace("EPOCH/", f"{epoch}/")


def test_impossible_vote_epochs_do_not_stop_the_quorum_and_a_poisoned_quorum_is_repaired(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 3)])["t"].result(30)
        write_confluent(cluster.bootstrap, "t", [Record(b"k", b"before")], "none")
        for node in cluster.nodes.values():
            assert ask_for_vote(node, LAST_EPOCH) == ErrorCode.INVALID_REQUEST
        cluster.kill()
        cluster.start()
        assert all(epoch_in(quorum_state(cluster, node)) < 100 for node in cluster.nodes)

        cluster.stop()
        for node in cluster.nodes:
            path = quorum_state(cluster, node)
            path.write_text(
                path.read_text().replace(f'"leaderEpoch":{epoch_in(path)}', f'"leaderEpoch":{LAST_EPOCH + 1}')
            )
        ends = []
        for node, process in cluster.nodes.items():
            with pytest.raises(NodeFailed) as failure:
                process.start()
            assert process.process is not None
            assert process.process.returncode == 1
            last = process.log_tail(1)
            assert f"no election can follow epoch {LAST_EPOCH + 1}" in last, failure.value
            assert epoch_in(quorum_state(cluster, node)) == LAST_EPOCH + 1, "nothing is touched"
            ends.append(int(re.findall(r"ends in epoch (\d+)", last)[0]))

        for process in cluster.nodes.values():
            subprocess.run(documented_repair(max(ends) + 1000), shell=True, check=True, cwd=process.data_directories)
        cluster.start()
        write_confluent(cluster.bootstrap, "t", [Record(b"k", b"after")], "none")
        assert [seen.record.value for seen in read_confluent(cluster.bootstrap, "t", 2)] == [b"before", b"after"]
        assert all(
            max(ends) + 1000 < epoch_in(quorum_state(cluster, node)) < max(ends) + 1100 for node in cluster.nodes
        )
