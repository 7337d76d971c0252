"""What librdkafka and Java's clients push reaches a real HTTP or HTTPS receiver of OTLP, and no other one's. Bodies are
decoded by OpenTelemetry's own classes."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from confluent_kafka import Producer
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, ResourceMetrics
from prometheus_client.parser import text_string_to_metric_families

from jepsen.java.kafka import TOOLS, java
from tests.capabilities import require_capability
from tests.certificates import certificates
from tests.integration.rest_node import RunningNode, running_node

SECONDS_MAX = 60.0


class Receiver:
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []
        """Path, content type and body."""
        self.url = ""

    def pushes(self) -> list[ResourceMetrics]:
        """Those of all requests. Each push of a client is one."""
        bodies = [ExportMetricsServiceRequest.FromString(body) for _, _, body in self.requests]
        return [push for body in bodies for push in body.resource_metrics]

    def metrics(self, client_id: str) -> dict[str, Metric]:
        """What the client pushed last, by name."""
        return {
            metric.name: metric
            for push in self.pushes()
            if labels_of(push)["client_id"] == client_id
            for scope in push.scope_metrics
            for metric in scope.metrics
        }


def labels_of(push: ResourceMetrics) -> dict[str, str]:
    found = {each.key: each.value.string_value for each in push.resource.attributes}
    assert len(found) == len(push.resource.attributes), "a key is there twice"
    return found


@contextmanager
def receiver(keys: Path | None = None) -> Iterator[Receiver]:
    """`keys`: a PEM file with key and certificates, for HTTPS."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests.append((self.path, self.headers["Content-Type"], body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if keys is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    found.url = f"{'http' if keys is None else 'https'}://localhost:{server.server_address[1]}/v1/metrics"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def exported(node: RunningNode, outcome: str) -> float:
    for family in text_string_to_metric_families(httpx.get(f"{node.admin}/metrics", timeout=30).text):
        for sample in family.samples:
            if sample.name == "kraft_telemetry_export_pushes_total" and sample.labels["outcome"] == outcome:
                return sample.value
    raise AssertionError("the metric is missing")


def subscribe(node: RunningNode) -> None:
    words = ("configs", "set", "client-metrics", "all", "metrics=*", "interval.ms=1000")
    command = [sys.executable, "-m", "kraft.cli.admin.app", *words, "--bootstrap-server", node.kafka]
    subprocess.run(command, check=True, timeout=60)


def measure(node: RunningNode, wanted: Callable[[], bool]) -> None:
    """Let a producer push its metrics until `wanted`."""
    subscribe(node)
    producer = Producer({"bootstrap.servers": node.kafka, "client.id": "billing", "linger.ms": 0})
    deadline = time.monotonic() + SECONDS_MAX
    while not wanted():
        assert time.monotonic() < deadline
        producer.produce("metered", b"v")
        producer.flush(10)
        time.sleep(0.1)


def endpoint(url: str, *more: str) -> tuple[str, ...]:
    return tuple(word for each in (f"kraft.telemetry.otlp.endpoint={url}", *more) for word in ("--set", each))


def test_pushes_reach_an_http_receiver_with_the_attributes_of_their_client(tmp_path: Path) -> None:
    with receiver() as found, running_node(tmp_path, *endpoint(found.url)) as node:
        latency = "org.apache.kafka.producer.node.request.latency.avg"
        measure(node, lambda: latency in found.metrics("billing"))
        assert found.metrics("billing")[latency].gauge.data_points[0].as_double > 0
        assert {(path, kind) for path, kind, _ in found.requests} == {("/v1/metrics", "application/x-protobuf")}
        [labels] = {tuple(sorted(labels_of(push).items())) for push in found.pushes()}
        told = dict(labels)
        assert len(told.pop("client_instance_id")) == 22
        assert int(told.pop("client_source_port")) > 0
        assert told.pop("client_software_version")
        assert told == {
            "broker_id": "1",
            "client_id": "billing",
            "client_software_name": "confluent-kafka-python",
            "client_source_address": "127.0.0.1",
        }
        assert exported(node, "sent") >= 1
        assert exported(node, "failed") == exported(node, "dropped") == 0


def test_what_javas_producer_pushes_reaches_the_receiver_as_totals(tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    with receiver() as found, running_node(tmp_path, *endpoint(found.url)) as node:
        subscribe(node)
        command = [*java("-Xmx256M"), TOOLS["console-producer"], "--bootstrap-server", node.kafka, "--topic", "metered"]
        command += ["--command-property", "client.id=java"]
        sent = "org.apache.kafka.producer.record.send.total"
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as producer:
            assert producer.stdin is not None
            deadline = time.monotonic() + SECONDS_MAX
            while sent not in found.metrics("java") or found.metrics("java")[sent].sum.data_points[0].as_double < 5:
                assert time.monotonic() < deadline
                producer.stdin.write("v\n")
                producer.stdin.flush()
                time.sleep(0.2)
            producer.stdin.close()
        assert producer.returncode == 0
        metrics = found.metrics("java")
        assert metrics[sent].sum.is_monotonic
        kinds = {each.sum.aggregation_temporality for each in metrics.values() if each.HasField("sum")}
        assert kinds == {AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE}
        [software] = {labels_of(push)["client_software_name"] for push in found.pushes()}
        assert software == "apache-kafka-java"


def test_pushes_reach_an_https_receiver_whose_authority_is_trusted(tmp_path: Path) -> None:
    keys = certificates().write(tmp_path)
    trust = ("ssl.truststore.type=PEM", f"ssl.truststore.location={keys / 'ca.pem'}")
    with receiver(keys / "node.pem") as found, running_node(tmp_path, *endpoint(found.url, *trust)) as node:
        measure(node, lambda: bool(found.requests))
        assert exported(node, "failed") == 0


def test_pushes_are_not_sent_to_an_https_receiver_that_nobody_trusted_has_signed(tmp_path: Path) -> None:
    keys = certificates().write(tmp_path)
    with receiver(keys / "node.pem") as found, running_node(tmp_path, *endpoint(found.url)) as node:
        measure(node, lambda: exported(node, "failed") > 0)
        assert found.requests == []
        assert "metrics of clients could not be forwarded" in (tmp_path / "node.log").read_text()
