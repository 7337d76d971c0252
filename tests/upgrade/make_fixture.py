"""Write the fixtures of the earlier commit: `python -m tests.upgrade.make_fixture`."""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from kraft.testing.process_cluster import ProcessCluster
from tests.upgrade.earlier import EARLIER_COMMIT, check_out_earlier, describe

FIXTURES: Final = Path(__file__).parent / "fixtures"
TOPICS: Final = ["plain", "compacted"]
GROUP: Final = "readers"


def write_everything(bootstrap: str, replicas: int) -> None:
    """Topics of several segments, a deleted topic, a changed config and committed offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    small = {"segment.bytes": "1048576", "min.insync.replicas": str(min(2, replicas))}
    wanted = [
        NewTopic("plain", 2, replicas, config=small),
        NewTopic("compacted", 1, replicas, config={**small, "cleanup.policy": "compact"}),
        NewTopic("deleted", 1, replicas),
    ]
    for created in admin.create_topics(wanted).values():
        created.result(30)
    for idempotent in (False, True):
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": idempotent, "acks": "all"})
        for number in range(400):
            for topic, partition in (("plain", number % 2), ("compacted", 0), ("deleted", 0)):
                producer.produce(
                    topic, b"%d" % number * (3000 if topic == "plain" else 20), key=b"%d" % number, partition=partition
                )
            if number % 50 == 49:
                assert producer.flush(30) == 0
    admin.delete_topics(["deleted"])["deleted"].result(30)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "plain")
    resource.add_incremental_config(ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET))
    admin.incremental_alter_configs([resource])[resource].result(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    consumer.commit(offsets=[TopicPartition("plain", 0, 123), TopicPartition("plain", 1, 45)], asynchronous=False)
    consumer.close()


def make(name: str, nodes: int, environment: dict[str, str], work: Path) -> None:
    """One fixture: the last node is killed with SIGKILL, the others stop."""
    cluster = ProcessCluster(work / name, nodes=nodes)
    for node in cluster.nodes.values():
        node.environment = environment
    with cluster:
        write_everything(cluster.bootstrap, nodes)
        acknowledged = {"commit": EARLIER_COMMIT, **describe(cluster.bootstrap, TOPICS, GROUP)}
        cluster.kill([nodes])
        cluster.stop()
    with tarfile.open(FIXTURES / f"{name}.tar.xz", "w:xz") as archive:
        for node in cluster.nodes:
            archive.add(work / name / str(node) / "data", f"{node}/data")
    (FIXTURES / f"{name}.json").write_text(json.dumps(acknowledged) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        earlier = check_out_earlier(work / "earlier")
        make("single", 1, earlier, work)
        make("quorum", 3, earlier, work)
