"""A live service of Java's consumers moves from the classic protocol to the consumer protocol of KIP-848, and back, one
process at a time, under load. Nothing is missed, and nothing is read twice."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException

from jepsen.java.kafka import TOOLS, java
from kraft.testing.foreign.librdkafka import AdminClient, Producer
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability
from tests.integration.group_clients import PARTITIONS, create
from tests.integration.migrating import SECONDS_MAX, SETTINGS

SIZE = 3
EACH_ROUND = 10


class JavaMember:
    """Kafka's VerifiableConsumer: it tells each record in a line of JSON, and commits what it was given at once before
    it asks for more."""

    def __init__(self, node: NodeProcess, group: str, protocol: str, told: Path) -> None:
        arguments = ["--bootstrap-server", node.bootstrap, "--topic", group, "--group-id", group, "--verbose"]
        arguments += ["--group-protocol", protocol]
        if protocol == "classic":
            arguments += ["--session-timeout", "6000"]
        self._told = told
        with told.open("w") as output:
            command = [*java("-Xmx128M"), TOOLS["verifiable-consumer"], *arguments]
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def events(self) -> list[dict[str, Any]]:
        """What it has told so far; a line under way is left out."""
        lines = self._told.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(SECONDS_MAX)


class JavaService:
    """Members of one group, whoever they are by now, and a producer that goes on meanwhile."""

    def __init__(self, node: NodeProcess, name: str, directory: Path) -> None:
        self.node = node
        self.group = create(node, name)
        self.directory = directory
        self.members: list[JavaMember] = []
        self.ended: list[JavaMember] = []
        self.producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0})
        self.admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        self.sent = self.started = 0

    def start(self, protocol: str) -> JavaMember:
        self.started += 1
        number = self.started
        return JavaMember(self.node, self.group, protocol, self.directory / f"{number}-{protocol}.txt")

    def replace(self, number: int, protocol: str) -> None:
        """The process of a member ends, and its new version starts."""
        self.members[number].close()
        self.ended.append(self.members[number])
        self.members[number] = self.start(protocol)
        self.until(self.balanced, f"member {number} has moved to the {protocol} protocol")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Produce until something holds."""
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, what
            for _ in range(EACH_ROUND):
                self.producer.produce(self.group, b"%d" % self.sent, partition=self.sent % PARTITIONS)
                self.sent += 1
            assert self.producer.flush(SECONDS_MAX) == 0

    def described(self) -> Any:
        return self.admin.describe_consumer_groups([self.group])[self.group].result(SECONDS_MAX)

    def balanced(self) -> bool:
        """Whether the group is stable, and each partition is somebody's and everybody has some."""
        try:
            told = self.described()
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return False  # The first describe may come while the topic of offsets is being made.
        shares = [[part.partition for part in each.assignment.topic_partitions] for each in told.members]
        has_all = sorted(partition for share in shares for partition in share) == list(range(PARTITIONS))
        return told.state == ConsumerGroupState.STABLE and len(shares) == SIZE and has_all and all(shares)

    def read(self) -> Counter[int]:
        events = [event for member in (*self.ended, *self.members) for event in member.events()]
        return Counter(int(event["value"]) for event in events if event["name"] == "record_data")

    def drain(self) -> None:
        """Read all that was produced so far."""
        sent = self.sent
        self.until(lambda: len(self.read().keys() & set(range(sent))) == sent, f"all of {sent} records are read")

    def close(self) -> None:
        for member in self.members:
            member.close()


def test_a_java_service_migrates_to_the_consumer_protocol_and_back_member_by_member(tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    (tmp_path / "told").mkdir()
    with NodeProcess(tmp_path / "node", *SETTINGS) as node:
        service = JavaService(node, "java", tmp_path / "told")
        try:
            service.members = [service.start("classic") for _ in range(SIZE)]
            service.until(service.balanced, "the members of the classic protocol share the topic")
            for protocol, kinds in (
                ("consumer", [ConsumerGroupType.CONSUMER] * 3),
                ("classic", [ConsumerGroupType.CONSUMER] * 2 + [ConsumerGroupType.CLASSIC]),
            ):
                for number, kind in enumerate(kinds):
                    service.replace(number, protocol)
                    assert service.described().type == kind
                    service.drain()
            read = service.read()
        finally:
            service.close()
    twice = [number for number, times in read.items() if times > 1]
    assert not twice, f"{len(twice)} of {service.sent} records were read twice"
