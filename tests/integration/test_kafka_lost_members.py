"""A partition whose replicas all died, one of them Apache Kafka's: our controller compares their logs and elects."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from jepsen.java.kafka import CLUSTER_ID, ApacheKafka, tool
from kraft.cli.admin.app import main
from kraft.common.config.endpoints import Endpoint
from kraft.controller.unclean.log_comparison import Answer
from kraft.controller.unclean.recovery import Question
from kraft.controller.unclean.replica_questions import ReplicaQuestions
from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from kraft.rpc_client.connection import connect
from kraft.testing.node_process import NodeProcess
from kraft.testing.ports import free_ports
from kraft.world.real import RealWorld
from tests.capabilities import require_capability

SECONDS_MAX = 60.0
OURS, KAFKAS = 1, 2


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"no {what} within {SECONDS_MAX} s"
        time.sleep(0.1)


class Pair:
    """Our node, which is the controller and broker 1, and Kafka's broker 2."""

    def __init__(self, directory: Path) -> None:
        properties = directory / "node.properties"
        self.ours = NodeProcess(directory / "ours", "--config", str(properties), listen=None, controller_listen=None)
        self.ours.directory.mkdir()
        self.kafka = ApacheKafka(directory / "kafka", node_id=KAFKAS)
        self.port = free_ports(1)[0]
        properties.write_text(
            f"process.roles=broker,controller\nnode.id={OURS}\ncontroller.listener.names=CONTROLLER\n"
            f"log.dirs={self.ours.data_directories}\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{self.kafka.controller_port}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.kafka.controller_port}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            "log.flush.interval.messages=1\n",
            encoding="utf-8",
        )
        storage = ("storage", "format", "--cluster-id", CLUSTER_ID, "--config", str(properties), "--standalone")
        assert main([*storage]) == 0
        self.kafka.settings |= {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.kafka.port}",
            "log.flush.interval.messages": "1",
        }
        self.kafka.directory.mkdir()
        path = self.kafka.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.kafka.properties().items()))
        tool("storage", "format", "-t", CLUSTER_ID, "-c", str(path))
        self.bootstrap = f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.ours.start()
        self.kafka.launch()
        self.kafka.wait_until_listening()

    def kill(self) -> None:
        self.kafka.kill()
        if self.ours.runs:
            self.ours.kill()

    def partition(self) -> tuple[int, list[int]]:
        """Leader and in-sync replicas."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found = admin.list_topics("t", timeout=SECONDS_MAX).topics["t"].partitions
        return (found[0].leader, sorted(found[0].isrs)) if found else (-1, [])

    def write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "log_level": 0})
        for number in range(count):
            producer.produce("t", b"%d" % number, partition=0)
        assert producer.flush(SECONDS_MAX) == 0

    def ends(self) -> dict[int, int]:
        """The last offset of the partition, as a reader sees it."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "g", "log_level": 0})
        try:
            return {0: consumer.get_watermark_offsets(TopicPartition("t", 0), SECONDS_MAX)[1]}
        finally:
            consumer.close()

    async def answers(self, epochs: tuple[int, ...]) -> dict[int, Answer]:
        """What each replica answers to the controller's question."""
        world = RealWorld(log_sink=lambda event: None)
        ports = {OURS: self.port, KAFKAS: self.kafka.port}
        async with connect(world, "127.0.0.1", self.port) as connection:
            described = await connection.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]))
        topic = described.topics[0]
        brokers = [
            BrokerRegistration(
                id=number, epoch=1, incarnation_id=bytes(16), endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", port),)
            )
            for number, port in ports.items()
        ]
        questions = [
            Question((topic.topic_id, 0), "t", number, 1, topic.partitions[0].leader_epoch, 1, epochs)
            for number in ports
        ]
        found = await ReplicaQuestions(world, "PLAINTEXT", None).ask(brokers, questions)
        return {question.broker_id: answer for question, answer in found}


def test_a_partition_whose_replicas_were_all_killed_is_led_again_with_a_member_of_apache_kafka(tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    pair = Pair(tmp_path)
    try:
        pair.start()
        admin = AdminClient({"bootstrap.servers": pair.bootstrap, "log_level": 0})
        wanted = NewTopic("t", 1, replica_assignment=[[OURS, KAFKAS]], config={"min.insync.replicas": "2"})
        until(lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == 2, "second broker")
        admin.create_topics([wanted])["t"].result(SECONDS_MAX)
        until(lambda: pair.partition() == (OURS, [OURS, KAFKAS]), "replicas in sync")
        pair.write(30)
        first = trio.run(pair.answers, ())
        assert first.keys() == {OURS, KAFKAS}, "Kafka's follower answers, too"
        assert first[OURS] == first[KAFKAS]
        for _ in range(2):
            pair.kill()
            pair.start()
            until(lambda: pair.partition()[1] == [OURS, KAFKAS], "leader and replicas in sync after both were killed")
            pair.write(20)
        leader, _ = pair.partition()
        compared = trio.run(pair.answers, tuple(range(first[OURS].end.last_epoch + 1)))
        assert compared.keys() == {OURS, KAFKAS}, f"led by {leader}"
        assert compared[OURS] == compared[KAFKAS]
        assert compared[OURS].end.end_offset == pair.ends()[0] == 70
    finally:
        pair.kill()
