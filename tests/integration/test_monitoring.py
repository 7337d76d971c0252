"""config/monitoring in Debian's Prometheus: every alert fires on what it is for and is silent otherwise, and every
query of the dashboards finds data in three real nodes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kraft._tools.generate_dashboards import DASHBOARDS, expressions, main
from kraft.testing.ports import HOST, free_ports
from tests.capabilities import require_capability
from tests.integration.ephemeral import close_input, start

FOLDER: Final = Path(__file__).parents[2] / "config" / "monitoring"
PAGE: Final = FOLDER.parents[1] / "docs" / "operations" / "monitoring.md"
WAIT_SECONDS_MAX: Final = 60
NODE: Final = 'instance="a:9644", job="kraft"'
TRAFFIC: Final = "kafka_server_brokertopicmetrics_"
GROUP: Final = 'consumergroup="g", topic="t"'
SHARE_GROUP: Final = 'sharegroup="g", topic="t"'

SLOW: Final = {"1": "0x40", "5": "0+9x40", "+Inf": "0+9x40"}
"""Buckets of a histogram whose values are all between one and five seconds."""

ALERTS: Final[dict[str, tuple[dict[str, str], dict[str, str]]]] = {
    "KraftPartitionWithoutLeader": (
        {"kafka_controller_kafkacontroller_offlinepartitionscount": "1x40"},
        {"kafka_controller_kafkacontroller_offlinepartitionscount": "0x40"},
    ),
    "KraftPartitionBelowMinIsr": (
        {"kafka_server_replicamanager_underminisrpartitioncount": "2x40"},
        {"kafka_server_replicamanager_underminisrpartitioncount": "0x40"},
    ),
    "KraftUncleanElection": (
        {"kafka_controller_controllerstats_uncleanleaderelections_total": "0x35 1x5"},
        {"kafka_controller_controllerstats_uncleanleaderelections_total": "1x40"},
    ),
    "KraftUnderReplicated": (
        {"kafka_server_replicamanager_underreplicatedpartitions": "1x40"},
        {"kafka_server_replicamanager_underreplicatedpartitions": "1x36 0x4"},
    ),
    "KraftIsrShrinks": (
        {"kafka_server_replicamanager_isrshrinks_total": "0+10x40"},
        {"kafka_server_replicamanager_isrshrinks_total": "3x40"},
    ),
    "KraftLogDirectoryOffline": (
        {"kafka_log_logmanager_offlinelogdirectorycount": "1x40"},
        {"kafka_log_logmanager_offlinelogdirectorycount": "0x40"},
    ),
    "KraftReplicaOffline": (
        {"kafka_server_replicamanager_offlinereplicacount": "1x40"},
        {"kafka_server_replicamanager_offlinereplicacount": "0x40"},
    ),
    "KraftDiskAlmostFull": (
        {'kraft_disk_free_bytes{directory="d"}': "14x40", 'kraft_disk_total_bytes{directory="d"}': "100x40"},
        {'kraft_disk_free_bytes{directory="d"}': "16x40", 'kraft_disk_total_bytes{directory="d"}': "100x40"},
    ),
    "KraftDiskFullWithinADay": (
        {'kraft_disk_free_bytes{directory="d"}': "90-1x60", 'kraft_disk_total_bytes{directory="d"}': "200x60"},
        {'kraft_disk_free_bytes{directory="d"}': "90x60", 'kraft_disk_total_bytes{directory="d"}': "200x60"},
    ),
    "KraftSyncSlow": (
        {f'kraft_fsync_seconds_bucket{{le="{le}"}}': values for le, values in SLOW.items()},
        {f'kraft_fsync_seconds_bucket{{le="{le}"}}': "0+9x40" for le in SLOW},
    ),
    "KraftTieringPutOff": (
        {'kraft_remote_put_off_partitions{topic="t"}': "1x40"},
        {'kraft_remote_put_off_partitions{topic="t"}': "1x30 0x2 1x8"},
    ),
    "KraftRemoteCopyFails": (
        {f'{TRAFFIC}remotecopyerrors_total{{topic="t"}}': "0+1x40"},
        {f'{TRAFFIC}remotecopyerrors_total{{topic="t"}}': "0x10 3x30"},
    ),
    "KraftRemoteCopyStandsStill": (
        {'kraft_remote_copy_wait_seconds{topic="t"}': "0+60x40"},
        {'kraft_remote_copy_wait_seconds{topic="t"}': "0+45x40"},
    ),
    "KraftRemoteCopyLagGrows": (
        {f'{TRAFFIC}remotecopylagbytes{{topic="t"}}': "2000000000+1000000x80"},
        {f'{TRAFFIC}remotecopylagbytes{{topic="t"}}': "2000000000-1000000x80"},
    ),
    "KraftRemoteDeleteFails": (
        {f'{TRAFFIC}remotedeleteerrors_total{{topic="t"}}': "0+1x40"},
        {f'{TRAFFIC}remotedeleteerrors_total{{topic="t"}}': "0x10 3x30"},
    ),
    "KraftRemoteFetchFails": (
        {f'{TRAFFIC}remotefetcherrors_total{{topic="t"}}': "0+1x40"},
        {f'{TRAFFIC}remotefetcherrors_total{{topic="t"}}': "7x40"},
    ),
    "KraftNodeDown": ({"up": "0x40"}, {"up": "1x40"}),
    "KraftNoActiveController": (
        {"kafka_controller_kafkacontroller_activecontrollercount": "0x40"},
        {"kafka_controller_kafkacontroller_activecontrollercount": "1x40"},
    ),
    "KraftBrokerFenced": (
        {"kafka_controller_kafkacontroller_fencedbrokercount": "1x40"},
        {"kafka_controller_kafkacontroller_fencedbrokercount": "0x40"},
    ),
    "KraftControllerBehind": (
        {'kraft_quorum_behind_seconds{node="2", role="voter"}': "11x40"},
        {'kraft_quorum_behind_seconds{node="2", role="voter"}': "9x40"},
    ),
    "KraftMetadataBehind": (
        {"kafka_server_broker_metadata_metrics_lag": "1001x40"},
        {"kafka_server_broker_metadata_metrics_lag": "1000x40"},
    ),
    "KraftLeadersOutOfPlace": (
        {"kafka_controller_kafkacontroller_preferredreplicaimbalancecount": "1x40"},
        {"kafka_controller_kafkacontroller_preferredreplicaimbalancecount": "1x20 0x20"},
    ),
    "KraftBackgroundWorkFails": (
        {'kraft_background_work_failures_total{work="w"}': "0x35 1x5"},
        {'kraft_background_work_failures_total{work="w"}': "1x40"},
    ),
    "KraftGroupLate": (
        {f'kafka_consumergroup_lag_seconds{{{GROUP}, partition="0"}}': "601x40"},
        {f'kafka_consumergroup_lag_seconds{{{GROUP}, partition="0"}}': "600x40"},
    ),
    "KraftGroupStuck": (
        {'kraft_consumergroup_stuck_members{consumergroup="g"}': "1x40"},
        {'kraft_consumergroup_stuck_members{consumergroup="g"}': "0x40"},
    ),
    "KraftGroupFallsBehind": (
        {f"kafka_consumergroup_lag_sum{{{GROUP}}}": "1001+1x40"},
        {f"kafka_consumergroup_lag_sum{{{GROUP}}}": "2000-1x40"},
    ),
    "KraftGroupLostRecords": (
        {
            f'kafka_consumergroup_current_offset{{{GROUP}, partition="0"}}': "5x40",
            'kafka_topic_partition_oldest_offset{topic="t", partition="0"}': "6x40",
        },
        {
            f'kafka_consumergroup_current_offset{{{GROUP}, partition="0"}}': "6x40",
            'kafka_topic_partition_oldest_offset{topic="t", partition="0"}': "6x40",
        },
    ),
    "KraftShareGroupFallsBehind": (
        {f"kraft_sharegroup_lag_sum{{{SHARE_GROUP}}}": "1001+1x40"},
        {f"kraft_sharegroup_lag_sum{{{SHARE_GROUP}}}": "2000-1x40"},
    ),
    "KraftShareGroupAbandoned": (
        {f"kraft_sharegroup_lag_sum{{{SHARE_GROUP}}}": "1x40", 'kraft_sharegroup_members{sharegroup="g"}': "0x40"},
        {f"kraft_sharegroup_lag_sum{{{SHARE_GROUP}}}": "1x40", 'kraft_sharegroup_members{sharegroup="g"}': "1x40"},
    ),
    "KraftShareDeadLetters": (
        {'kraft_share_dead_letters_written_total{group="g"}': "_x30 1x10"},
        {'kraft_share_dead_letters_written_total{group="g"}': "1x40"},
    ),
    "KraftShareDeadLettersFail": (
        {'kraft_share_dead_letters_failed_total{group="g"}': "0x30 1x10"},
        {'kraft_share_dead_letters_failed_total{group="g"}': "1x40"},
    ),
    "KraftTransactionLate": (
        {"kafka_server_replicamanager_partitionswithlatetransactionscount": "1x40"},
        {"kafka_server_replicamanager_partitionswithlatetransactionscount": "0x40"},
    ),
    "KraftProduceSlow": (
        {
            f'kraft_request_duration_seconds_bucket{{request="Produce", le="{le}"}}': values
            for le, values in SLOW.items()
        },
        {f'kraft_request_duration_seconds_bucket{{request="Fetch", le="{le}"}}': values for le, values in SLOW.items()},
    ),
    "KraftRequestsFail": (
        {'kafka_network_requestmetrics_errors_total{request="Metadata", error="E"}': "0+120x40"},
        {'kafka_network_requestmetrics_errors_total{request="Metadata", error="E"}': "0+30x40"},
    ),
    "KraftFailedProduce": (
        {'kafka_server_brokertopicmetrics_failedproducerequests_total{topic="t"}': "0+1x40"},
        {'kafka_server_brokertopicmetrics_failedproducerequests_total{topic="t"}': "7x40"},
    ),
    "KraftLoginsFail": (
        {'kraft_failed_logins_total{listener="SASL", failure="password"}': "0+120x40"},
        {'kraft_failed_logins_total{listener="SASL", failure="password"}': "0+30x40"},
    ),
    # The end of the HTTP admin's certificate is the end of the scrapes.
    "KraftCertificateEnds": (
        {'tls_certificate_expiry_timestamp_seconds{listener="SSL"}': f"{14 * 86400}x10 _x30"},
        {'tls_certificate_expiry_timestamp_seconds{listener="SSL"}': f"{15 * 86400}x40"},
    ),
    "KraftClockWrong": (
        {"kraft_clock_seconds": "3600+60x40"},
        {"kraft_clock_seconds": "0+60x40"},
    ),
    "KraftSlowDisk": (
        {'kraft_slow_disk_seconds{directory="/d"}': "2x40"},
        {'kraft_slow_disk_seconds{directory="/d"}': "1x40"},
    ),
    "KraftNodeBusy": (
        {"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": "0.05x40"},
        {"kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": "0.5x40"},
    ),
    "KraftLoopHeldUp": (
        {"kraft_loop_step_seconds_count": "0+30x40", 'kraft_loop_step_seconds_bucket{le="0.2"}': "0x40"},
        {"kraft_loop_step_seconds_count": "0+30x40", 'kraft_loop_step_seconds_bucket{le="0.2"}': "0+30x40"},
    ),
    "KraftDescriptorsShort": (
        {"process_open_fds": "90x40", "process_max_fds": "100x40"},
        {"process_open_fds": "70x40", "process_max_fds": "100x40"},
    ),
}
"""What makes each alert fire, and what is near to it and does not; a value a minute."""
ONLY_AFTER_SOMETHING_HAPPENED: Final = (
    "kraft_throttles_total",
    "kraft_failed_logins_total",
    "kraft_slow_disk_seconds",
    "kraft_share_dead_letters_written_total",
)
"""Series that are there once a client had to wait, or was refused."""


def rules() -> dict[str, str]:
    """Expression by name, from the file as text: promtool has judged its form."""
    found, name = {}, ""
    for line in (FOLDER / "alerts.yml").read_text(encoding="utf-8").splitlines():
        word, _, rest = line.strip().removeprefix("- ").partition(": ")
        if word == "alert":
            name = rest
        elif word == "expr":
            found[name] = rest
    return found


def with_labels(series: str) -> str:
    name, _, labels = series.partition("{")
    return f"{name}{{{', '.join(filter(None, (NODE, labels.removesuffix('}'))))}}}"


def firing(series: dict[str, str], folder: Path) -> set[str]:
    """Names of the alerts that fire after forty minutes of these values."""
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": with_labels(name), "values": values} for name, values in series.items()],
            "promql_expr_test": [{"expr": 'ALERTS{alertstate="firing"}', "eval_time": "40m", "exp_samples": []}],
        }
    ]
    file = folder / "test.yml"  # What is JSON is YAML, too.
    file.write_text(
        json.dumps({"rule_files": [str(FOLDER / "alerts.yml")], "evaluation_interval": "1m", "tests": tests})
    )
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert "got:" in told or done.returncode == 0, told
    return {word.partition('"')[0] for word in told.partition("got:")[2].split('alertname="')[1:]}


def test_prometheus_accepts_the_monitoring_files() -> None:
    require_capability("prometheus")
    done = subprocess.run(
        ["promtool", "check", "config", str(FOLDER / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_alert_is_tested_and_documented() -> None:
    assert list(rules()) == list(ALERTS)
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in ALERTS if f"`{name}`" not in page] == []


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_fires_on_its_fault(alert: str, tmp_path: Path) -> None:
    require_capability("prometheus")
    wrong, right = ALERTS[alert]
    assert alert in firing(wrong, tmp_path)
    assert alert not in firing(right, tmp_path)


def test_the_dashboards_are_up_to_date() -> None:
    assert main(["--check"]) == 0
    assert sorted(path.stem for path in (FOLDER / "grafana").glob("*.json")) == sorted(DASHBOARDS)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one that scrapes three nodes, with a client at work, every second."""
    require_capability("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    settings = ("remote.log.storage.system.enable=true", f"kraft.remote.storage.uri=file://{folder / 'store'}")
    sets = [part for setting in settings for part in ("--set", setting)]
    with start("--json", "-n", "3", *sets) as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        assert process.stdout is not None
        document: dict[str, Any] = json.loads(process.stdout.readline())
        stack.callback(close_input, process)  # After the clients are gone: librdkafka may close for ever without nodes.
        stack.enter_context(traffic(document["bootstrap"]))
        targets = [node["admin_url"].removeprefix("http://") for node in document["nodes"]]
        config = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
        (folder / "alerts.yml").write_text((FOLDER / "alerts.yml").read_text(encoding="utf-8"))
        (folder / "prometheus.yml").write_text(
            config.replace('["127.0.0.1:9644"]', json.dumps(targets)).replace(
                "scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s"
            )
        )
        (port,) = free_ports(1)
        address = f"{HOST}:{port}"
        said = stack.enter_context((folder / "said").open("w"))
        server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        stack.callback(server.wait)
        stack.callback(server.kill)
        yield f"http://{address}"


@contextlib.contextmanager
def traffic(bootstrap: str) -> Iterator[None]:
    """A tiered topic of which a consumer group has read a part."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("watched", 3, 3, config={"remote.storage.enable": "true"})
    admin.create_topics([topic])["watched"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watchers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["watched"])
    for number in range(300):
        producer.produce("watched", b"x", partition=number % 3)
    assert producer.flush(30) == 0
    while (record := consumer.poll(30)) is None or record.error():
        pass
    consumer.commit(offsets=[TopicPartition("watched", 0, 1)], asynchronous=False)
    with share_traffic(bootstrap):
        yield
    consumer.close()


@contextlib.contextmanager
def share_traffic(bootstrap: str) -> Iterator[None]:
    """A share group that has acknowledged the records of a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("jobs", 3, 3)])["jobs"].result(30)
    words = ("configs", "set", "group", "workers", "share.auto.offset.reset=earliest")
    command = [sys.executable, "-m", "kraft.cli.admin.app", *words, "--bootstrap-server", bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("jobs", b"x")
    assert producer.flush(30) == 0
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": "workers"})
    consumer.subscribe(["jobs"])
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not any(record.error() is None for record in consumer.poll(timeout=1.0) or []):
        assert time.monotonic() < deadline
    consumer.commit_sync()
    yield
    consumer.close()


def asked(prometheus: str, path: str, **parameters: str) -> Any:
    """The answer's data; None while the server does not answer."""
    try:
        answer = httpx.get(f"{prometheus}/api/v1/{path}", params=parameters, timeout=30)
    except httpx.TransportError:
        return None
    if answer.status_code == 503:  # It begins.
        return None
    document = answer.json()
    assert document["status"] == "success", document
    return document["data"]


def test_every_dashboard_query_returns_data(prometheus: str) -> None:
    missing = [
        (title, expression)
        for title, expression in expressions()
        if not any(name in expression for name in ONLY_AFTER_SOMETHING_HAPPENED)
    ]
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while missing and time.monotonic() < deadline:
        for title, expression in list(missing):
            found = asked(prometheus, "query", query=expression.replace("$__rate_interval", "30s"))
            if found is not None and found["result"]:
                missing.remove((title, expression))
        time.sleep(0.2)
    assert missing == []


def test_every_alert_expression_can_be_evaluated(prometheus: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    health: dict[str, str] = {"": "unknown"}
    while "unknown" in health.values() and time.monotonic() < deadline:
        groups = (asked(prometheus, "rules") or {"groups": []})["groups"]
        health = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]} or health
    assert health == dict.fromkeys(ALERTS, "ok")
