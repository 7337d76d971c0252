"""The metrics of a job in Prometheus' text format, and the HTTP endpoint that serves them until the job ends."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from kraft.common.config.endpoints import Address, join_address
from kraft.common.errors import KraftError
from kraft.common.metrics import LabelValues, MetricsRegistry, render_prometheus
from kraft.spark.jobs.running import JobFailed, JobReport, Part, Progress, Work

PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_SECONDS: Final = 10
"""The time in which a scraper must send its request and read the response."""
LABELS: Final = ("command",)


class JobMetrics:
    """The counters of one run of a command, such as `mirror`. Used by several threads."""

    def __init__(self, command: str) -> None:
        self.lock = threading.Lock()
        self.done = Part()
        """Totals of ended queries and merged parts."""
        self.batches = 0
        self.progress = Progress(0, 0)
        """Progress of the running query."""
        self.batch_seconds: float | None = None
        self.failed_by_stage: dict[int, int] = {}
        self.work = Work("")
        """The present work."""
        self.failures = 0
        self.warnings = 0
        self.registry = MetricsRegistry()
        values = (command,)

        def series(number: float | None) -> list[tuple[LabelValues, float]]:
            return [] if number is None else [(values, number)]

        for name, help_text, read in (
            (
                "records_total",
                "Records written; of verify, records compared.",
                lambda: self.done.records + self.progress.rows,
            ),
            (
                "bytes_total",
                "Bytes written: of keys and values in topics, of files in archives.",
                lambda: self.done.size + self.progress.size,
            ),
            (
                "batches_total",
                "Micro-batches written; of a compaction, parts that are merged.",
                lambda: self.batches + self.progress.batches,
            ),
            (
                "errors_total",
                "Attempts of tasks that failed, and the error that ends the job.",
                lambda: sum(self.failed_by_stage.values()) + self.failures,
            ),
            ("warnings_total", "Warnings on stderr.", lambda: self.warnings),
        ):
            self.registry.counters(f"kraft_spark_{name}", help_text, LABELS, lambda read=read: series(read()))  # type: ignore[misc]
        for name, help_text, read_known in (
            (
                "lag_records",
                "Records left: offsets of the topics that the last micro-batch did not reach.",
                lambda: self.progress.behind,
            ),
            ("batch_seconds", "Duration of the last micro-batch in seconds.", lambda: self.batch_seconds),
            (
                "tasks",
                "Tasks of the present work of Spark; of maintain, files to remove.",
                lambda: self.work.of or None,
            ),
            ("tasks_done", "Tasks, or files, that are done.", lambda: self.work.done if self.work.of else None),
        ):
            self.registry.gauges(f"kraft_spark_{name}", help_text, LABELS, lambda read=read_known: series(read()))  # type: ignore[misc]

    def note(self, report: JobReport) -> None:
        """Update the counters by one report of the job."""
        with self.lock:
            if isinstance(report, Progress):
                self.note_progress(report)
            elif isinstance(report, Part):
                self.done = Part(self.done.records + report.records, self.done.size + report.size)
                self.batches += 1
                self.batch_seconds = report.seconds
            elif isinstance(report, Work):
                self.work = report
                for stage, failed in (report.failed or {}).items():
                    self.failed_by_stage[stage] = max(failed, self.failed_by_stage.get(stage, 0))
            elif report.is_warning:
                self.warnings += 1

    def note_progress(self, progress: Progress) -> None:
        """Record the progress of a query, counted from the query's start. When the query has ended, its totals are
        added to `done`."""
        self.progress = progress
        if progress.batches:
            self.batch_seconds = progress.seconds
        if progress.is_last:
            self.done = Part(self.done.records + progress.rows, self.done.size + progress.size)
            self.batches += progress.batches
            self.progress = Progress(0, 0, behind=progress.behind)

    @contextmanager
    def failure_counted(self) -> Iterator[None]:
        """Count an error that ends the body."""
        try:
            yield
        except KraftError:
            with self.lock:
                self.failures += 1
            raise

    def text(self) -> str:
        """The metrics in Prometheus' text format."""
        with self.lock:
            return "".join(render_prometheus(self.registry.families()))


class Server(socketserver.ThreadingTCPServer):
    """Serves the metrics of one job. A thread answers each request."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, metrics: JobMetrics, at: Address) -> None:
        self.metrics = metrics
        self.address_family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        super().__init__((at.host, at.port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the error of a request, unless the scraper closed the connection or was too slow."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server: Server

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self.send_error(HTTPStatus.NOT_FOUND, explain=f"metrics are at {PATH}")
            return
        body = self.server.metrics.text().encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Requests are not logged: stderr shows the job's progress."""


@contextmanager
def served(metrics: JobMetrics, at: Address) -> Iterator[str]:
    """Serve the metrics while the body runs. Yields their URL. Port 0 is any free port. Raises JobFailed if the address
    cannot be listened on."""
    try:
        server = Server(metrics, at)
    except OSError as problem:
        reason = f"metrics cannot be served at {at} ({problem.strerror or problem}): give another --metrics-port"
        raise JobFailed(reason) from problem
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="kraft-metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{join_address(*server.server_address[:2])}{PATH}"  # type: ignore[arg-type]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
