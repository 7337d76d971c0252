"""Apache Kafka's server and command-line tools, as a reference to compare with and as judges of our files and protocol.

with ApacheKafka(directory) as kafka:
    tool("topics", "--bootstrap-server", kafka.bootstrap, "--create", "--topic", "t")
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from jepsen.java import short_lived
from jepsen.java.jars import POMS, jars
from kraft.testing.ports import free_ports

REFERENCE = "kafka"
"""The folder of the reference release's pom."""
BEFORE = "kafka_4_3"
"""The folder of the release before it, the last one with LocalTieredStorage and kafka-shell on Maven Central."""
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
TOOLS = {
    "storage": "kafka.tools.StorageTool",
    "configs": "org.apache.kafka.tools.ConfigCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "producer-perf": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf": "org.apache.kafka.tools.ConsumerPerformance",
    "reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
}


def java(
    heap: str,
    log_level: str = "WARN",
    options: Sequence[str] | None = None,
    release: str = REFERENCE,
    classes: Path | None = None,
) -> list[str]:
    """Return the command line of a JVM with the class path of a release of Kafka, and `classes` behind it, up to the
    main class. Without options the JVM is tuned for a short life."""
    log4j = POMS / "kafka" / "log4j2.xml"
    return [
        "java",
        *heap.split(),
        *(short_lived.options(release) if options is None else options),
        f"-Dlog4j2.configurationFile={log4j}",
        f"-Dkafka.log.level={log_level}",
        "-cp",
        f"{jars(release)}/*" + ("" if classes is None else f":{classes}"),
    ]


def tool(
    name: str,
    *arguments: str,
    timeout: float = 120,
    stdin: str | None = None,
    check: bool = True,
    release: str = REFERENCE,
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's tools to its end. With `check`, a failing exit code raises AssertionError that carries both
    outputs."""
    command = [*java("-Xmx512M", release=release), TOOLS[name], *arguments]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=timeout, env={**os.environ, "LC_ALL": "C"}
    )
    if check:
        assert done.returncode == 0, (
            f"{name} {' '.join(arguments)} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
    return done


class ApacheKafka:
    """One combined Kafka node in `directory`. On first start it is formatted as a quorum of one with dynamic voters.
    Features are at the release's defaults, except for `features`. Without options its JVM is tuned for a short life.
    `kill` is SIGKILL; a later `start` serves the same data on the same ports."""

    def __init__(
        self,
        directory: Path,
        *,
        port: int | None = None,
        controller_port: int | None = None,
        node_id: int = 1,
        settings: Mapping[str, str] | None = None,
        heap: str = "-Xmx1G",
        features: Mapping[str, int] | None = None,
        options: Sequence[str] | None = None,
        release: str = REFERENCE,
        release_version: str | None = None,
        classes: Path | None = None,
    ) -> None:
        """`release_version` is that of `kafka-storage format`: the levels of an earlier release. `classes` has plugins
        that the settings name."""
        spare = free_ports(2)
        self.directory = directory
        self.port = port or spare[0]
        self.controller_port = controller_port or spare[1]
        self.node_id = node_id
        self.settings = dict(settings or {})
        self.heap = heap
        self.features = dict(features or {})
        self.options = options
        self.release = release
        self.release_version = release_version
        self.classes = classes
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data_directory(self) -> Path:
        return self.directory / "data"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data_directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.settings,
        }

    def format(self) -> None:
        """Write the properties file, and format the data directory unless it is already."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties().items()))
        if not (self.data_directory / "meta.properties").exists():
            features = [
                argument for name, level in self.features.items() for argument in ("--feature", f"{name}={level}")
            ]
            if self.release_version is not None:
                features += ["--release-version", self.release_version]
            tool(
                "storage", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(path), *features, release=self.release
            )

    def launch(self) -> None:
        """Start the process and return immediately (a benchmark times what follows)."""
        self.log_path = self.directory / "server.log"
        with open(self.log_path, "ab") as log:
            command = [
                *java(self.heap, options=self.options, release=self.release, classes=self.classes),
                "kafka.Kafka",
                str(self.directory / "server.properties"),
            ]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def wait_until_listening(self, timeout: float = 60) -> None:
        """Wait until the client port accepts connections. Kafka opens it once the broker is registered and unfenced."""
        assert self.process is not None
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"Kafka ended with {self.process.returncode}: {self.log_path.read_text()[-3000:]}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError(
            f"Kafka does not listen on {self.port} after {timeout} s: {self.log_path.read_text()[-3000:]}"
        )

    def start(self) -> "ApacheKafka":
        self.format()
        self.launch()
        self.wait_until_listening()
        return self

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(timeout=60)
        self.process = None

    def kill(self) -> None:
        """Kill the process with SIGKILL, without a controlled shutdown."""
        self.signal(signal.SIGKILL)

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not end in time."""
        try:
            self.signal(signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> "ApacheKafka":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
