"""What a job of `kraft spark` counts for Prometheus, and where it serves it. Without Spark."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kraft.common.config.endpoints import Address
from kraft.spark.jobs.metrics import JobMetrics, served
from kraft.spark.jobs.running import Counted, JobFailed, Notice, Part, Progress, Work
from kraft.spark.jobs.watching import tasks

LOCAL = Address("127.0.0.1", 0)


def numbers(metrics: JobMetrics) -> dict[str, float]:
    """By name without the prefix. Each sample has the command as its label."""
    found = {}
    for family in text_string_to_metric_families(metrics.text()):
        for sample in family.samples:
            assert sample.labels == {"command": "mirror"}
            found[sample.name.removeprefix("kraft_spark_")] = sample.value
    return found


def test_metrics_begin_at_zero_and_leave_out_what_is_not_known() -> None:
    begun = {"records_total": 0, "bytes_total": 0, "batches_total": 0, "errors_total": 0, "warnings_total": 0}
    assert numbers(JobMetrics("mirror")) == begun


def test_metrics_follow_the_progress_of_a_query_and_count_a_report_once() -> None:
    metrics = JobMetrics("mirror")
    for _ in range(2):
        metrics.note(Progress(2, 30, behind=7, size=400, seconds=1.5))
    found = numbers(metrics)
    assert (found["records_total"], found["bytes_total"], found["batches_total"]) == (30, 400, 2)
    assert (found["lag_records"], found["batch_seconds"]) == (7, 1.5)


def test_counters_of_several_topics_add_up_also_where_a_topic_has_as_many_batches() -> None:
    metrics = JobMetrics("mirror")
    for _ in range(3):
        metrics.note(Progress(1, 10, size=100))
        metrics.note(Progress(1, 10, size=100, is_last=True))
    found = numbers(metrics)
    assert (found["records_total"], found["bytes_total"], found["batches_total"]) == (30, 300, 3)


def test_merged_parts_of_a_compaction_are_its_batches() -> None:
    metrics = JobMetrics("mirror")
    metrics.note(Part(records=5, size=50, seconds=2.0))
    metrics.note(Part(records=6, size=60, seconds=3.0))
    found = numbers(metrics)
    assert (found["records_total"], found["bytes_total"], found["batches_total"]) == (11, 110, 2)
    assert found["batch_seconds"] == 3.0


def test_errors_are_failed_attempts_of_tasks_and_the_end_of_the_job() -> None:
    metrics = JobMetrics("mirror")
    for failed in ({1: 1}, {1: 2}, {2: 1}, {}):
        metrics.note(Work("writing", 1, 4, failed))
    metrics.note(Notice("a warning", is_warning=True))
    metrics.note(Notice("no warning"))
    assert (numbers(metrics)["errors_total"], numbers(metrics)["warnings_total"]) == (3, 1)
    with pytest.raises(JobFailed), metrics.failure_counted():
        raise JobFailed("gone")
    assert numbers(metrics)["errors_total"] == 4


def test_the_bytes_and_seconds_of_progress_are_those_of_sparks_reports() -> None:
    def report(number: int, rows: int, **more: Any) -> Any:
        known = {"batchId": number, "numInputRows": rows, "durationMs": {"triggerExecution": 250}, "sources": []}
        return SimpleNamespace(json=json.dumps(known | more))

    first = report(0, 10, observedMetrics={"written": {"records": 9, "bytes": 90}})
    query: Any = SimpleNamespace(recentProgress=[first])
    counted = Counted()
    assert counted.take(query)[:2] == (1, 9)
    query.recentProgress = [first, report(1, 4, observedMetrics={"written": {"records": 4, "bytes": 5}}), report(1, 0)]
    found = counted.take(query)
    assert (found.batches, found.rows, found.size, found.seconds) == (2, 13, 95, 0.25)


def test_failed_attempts_are_counted_by_stage() -> None:
    stages = {3: SimpleNamespace(numCompletedTasks=1, numTasks=4, numFailedTasks=2), 4: None}
    tracker = SimpleNamespace(getActiveStageIds=lambda: [3, 4], getStageInfo=stages.get)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    assert tasks(session) == (1, 4, {3: 2})


def test_metrics_are_served_until_the_job_ends() -> None:
    metrics = JobMetrics("mirror")
    with served(metrics, LOCAL) as url:
        metrics.note(Progress(1, 3))
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert 'kraft_spark_records_total{command="mirror"} 3\n' in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(url.replace("metrics", "other"), timeout=10)
        refused.value.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=10)


def test_a_scraper_that_closes_the_connection_is_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    with served(JobMetrics("mirror"), LOCAL) as url:
        place = url.removeprefix("http://127.0.0.1:").removesuffix("/metrics")
        with socket.create_connection(("127.0.0.1", int(place))) as rude:
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            rude.sendall(b"GET /metrics HTTP/1.1\r\n")
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.status == 200
    assert capfd.readouterr().err == ""


def test_an_address_in_use_is_rejected_by_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = (
            rf"metrics cannot be served at 127\.0\.0\.1:{port} \(Address already in use\): give another --metrics-port"
        )
        with pytest.raises(JobFailed, match=sentence), served(JobMetrics("mirror"), Address("127.0.0.1", port)):
            raise AssertionError
