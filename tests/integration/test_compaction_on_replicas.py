"""A compacted topic of which one replica is away for longer than delete.retention.ms."""

from __future__ import annotations

from pathlib import Path

from jepsen.three_nodes import ThreeNodes, until
from kraft.testing.foreign.librdkafka import Producer
from kraft.testing.node_process import NodeProcess
from tests.integration.transactions_of_one_key import SECONDS_MAX, read_all

COMPACTED = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "0",
    "segment_ms": "100",
    "min_insync_replicas": "1",
}
CLEANINGS = 4
"""So many take away what was aborted, its marker, and tombstones, one after the other."""


def test_transactions_ended_while_a_replica_was_down_are_ended_when_it_leads(tmp_path: Path) -> None:
    with ThreeNodes(tmp_path, "--set", "log.cleaner.backoff.ms=50") as cluster:
        cluster.create("t", replicas=2, **COMPACTED)
        with (
            Producer(cluster.servers(transactional_id="writes")) as producer,
            Producer(cluster.servers(linger_ms=0)) as plain,
        ):
            producer.init_transactions(SECONDS_MAX)
            plain.produce("t", b"deleted", b"d", 0)
            assert plain.flush(SECONDS_MAX) == 0
            producer.begin_transaction()
            producer.produce("t", b"aborted", b"a", 0)
            assert producer.flush(SECONDS_MAX) == 0
            leader = cluster.leader("t")
            (away,) = {1, 2, 3} & set(cluster.partitions("t")[0].replicas) - {leader}
            assert cluster.nodes[away].stop() == 0
            until(lambda: cluster.told_by(leader, "t")[0].isr_nodes == [leader], "it is still in sync")

            producer.abort_transaction(SECONDS_MAX)
            producer.begin_transaction()
            producer.produce("t", b"committed", b"c", 0)
            producer.commit_transaction(SECONDS_MAX)
            plain.produce("t", None, b"d", 0)
            clean(cluster.nodes[leader], plain)
            cluster.nodes[away].start()
            until(lambda: len(cluster.told_by(leader, "t")[0].isr_nodes) == 2, "it does not come into the set")
            cluster.nodes[leader].stop()
            assert cluster.leader("t") == away
            cluster.nodes[leader].start()
            found = read_all(cluster.bootstrap, "t")
            assert cluster.leader("t") == away
            assert b"aborted" not in found
            assert b"committed" in found


def clean(node: NodeProcess, producer: Producer) -> None:
    """Write until the node has cleaned what is there often enough."""
    cleaned_before = cleanings(node)

    def is_clean() -> bool:
        producer.produce("t", b"filler", b"f", 0)
        assert producer.flush(SECONDS_MAX) == 0
        return cleanings(node) >= cleaned_before + CLEANINGS

    until(is_clean, f"it cleans nothing:\n{node.log_tail()}")


def cleanings(node: NodeProcess) -> int:
    return len([line for line in node.log_path.read_text().splitlines() if "log cleaned" in line and "t-0" in line])
