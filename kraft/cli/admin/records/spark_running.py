"""Runs a job of `kraft spark`, and prints its progress."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from kraft.cli.admin.options import parse_pairs
from kraft.cli.admin.output import size
from kraft.cli.admin.running import FAILED, NOT_FOUND
from kraft.common.config.endpoints import Address
from kraft.common.errors import KraftError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress as Bar

    from kraft.spark.jobs.metrics import JobMetrics
    from kraft.spark.jobs.running import JobReport, Progress, Say, Work

Check = Callable[[Mapping[str, str]], None]
Plan = Callable[[Mapping[str, str]], dict[str, Any]]
Job = Callable[["SparkSession", "Say"], dict[str, Any]]
LINE_SECONDS: Final = 5.0
"""At most one line of progress in this time, where stderr is no terminal."""
STARTING: Final = "starting Spark"


class Steps(NamedTuple):
    """A job. `check` finds errors that can be known before Spark starts; `plan` returns what the job would do."""

    check: Check
    job: Job
    plan: Plan


class Serving(NamedTuple):
    """The address at which the metrics of a command are served; None if they are not served."""

    command: str = ""
    at: Address | None = None


def run(
    master: str, conf: list[str], quiet: bool, steps: Steps, *, dry_run: bool = False, serving: Serving = Serving()
) -> dict[str, Any]:
    """The summary of a job; with `dry_run` the plan, without Spark. An error is printed on stderr and exits with its
    code."""
    from kraft.spark.jobs.metrics import JobMetrics
    from kraft.spark.jobs.running import JobNotFound, Notice, Work
    from kraft.spark.jobs.session import spark_session

    settings = parse_pairs(conf, "--conf")
    begun = time.monotonic()
    printer, metrics = Printer(quiet, sys.stderr.isatty()), JobMetrics(serving.command)

    def say(report: JobReport) -> None:
        metrics.note(report)
        printer.say(report)

    try:
        if dry_run:
            return steps.plan(settings)
        with served_if_asked(metrics, serving.at, say):
            steps.check(settings)
            say(Work(STARTING))
            with spark_session(master, settings, lambda line: say(Notice(line, is_warning=True))) as session:
                with metrics.failure_counted():
                    summary = steps.job(session, say)
    except KraftError as problem:
        printer.close()
        sys.stderr.write(f"kraft: {problem}\n")
        raise typer.Exit(NOT_FOUND if isinstance(problem, JobNotFound) else FAILED) from problem
    finally:
        printer.close()
    return {**summary, "seconds": round(time.monotonic() - begun, 1)}


@contextmanager
def served_if_asked(metrics: JobMetrics, at: Address | None, say: Say) -> Iterator[None]:
    """Serve the metrics while the body runs, if `at` is an address, and report their URL. Raises JobFailed."""
    from kraft.spark.jobs.metrics import served
    from kraft.spark.jobs.running import Notice

    if at is None:
        yield
        return
    with served(metrics, at) as url:
        say(Notice(f"metrics at {url}"))
        yield


def run_here(deed: Callable[[Say], dict[str, Any]], serving: Serving) -> dict[str, Any]:
    """The summary of a job that needs no Spark. An error is printed on stderr and exits with its code."""
    from kraft.spark.jobs.metrics import JobMetrics
    from kraft.spark.jobs.running import JobNotFound, Notice

    begun, metrics = time.monotonic(), JobMetrics(serving.command)

    def say(report: JobReport) -> None:
        metrics.note(report)
        if isinstance(report, Notice):
            sys.stderr.write(f"{report.text}\n")

    try:
        with served_if_asked(metrics, serving.at, say), metrics.failure_counted():
            summary = deed(say)
    except KraftError as problem:
        sys.stderr.write(f"kraft: {problem}\n")
        raise typer.Exit(NOT_FOUND if isinstance(problem, JobNotFound) else FAILED) from problem
    return {**summary, "seconds": round(time.monotonic() - begun, 1)}


class Printer:
    """Prints the progress of a job on stderr: a bar on a terminal, else a line every few seconds. Used by several
    threads. `now` is a clock in seconds."""

    def __init__(self, quiet: bool, is_terminal: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        self.quiet, self.is_terminal, self.now = quiet, is_terminal, now
        self.lock = threading.Lock()
        self.progress: Progress | None = None
        self.work: Work | None = None
        self.begun_s = self.printed_s = now()
        self.printed = ""
        self.bar: Bar | None = None

    def say(self, report: JobReport) -> None:
        """Print a report. A merged part has no line of its own: the next report of progress includes it."""
        from kraft.spark.jobs.running import Notice, Part

        with self.lock:
            if isinstance(report, Notice):
                if report.is_warning or not self.quiet:
                    self.write(f"warning: {report.text}" if report.is_warning else report.text)
            elif not self.quiet and not isinstance(report, Part):
                self.note(report)

    def note(self, report: Progress | Work) -> None:
        """Print the progress, unless it is unchanged or a line of the same kind was printed just now."""
        from kraft.spark.jobs.running import Work

        is_other = isinstance(report, Work) and (self.work is None or report.what != self.work.what)
        if isinstance(report, Work):
            self.work = report
        else:
            if not report.batches:
                return
            is_other = self.progress is None
            if is_other:
                self.begun_s = self.now()
            self.progress = report
        text = shown(self.progress, self.work, self.now() - self.begun_s)
        if self.is_terminal:
            self.draw(text)
        elif text != self.printed and (is_other or self.now() - self.printed_s >= LINE_SECONDS):
            self.printed, self.printed_s = text, self.now()
            self.write(text)

    def draw(self, text: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as Bar

        if self.bar is None:
            columns = SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.bar.add_task("", total=None)
            self.bar.start()
        done, total = share_of(self.progress, self.work)
        self.bar.update(self.bar.task_ids[0], description=text, completed=done, total=total)

    def write(self, line: str) -> None:
        if self.bar is None:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        else:
            self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Remove the bar. Idempotent."""
        with self.lock:
            if self.bar is not None:
                self.bar.stop()
                self.bar = None


def share_of(progress: Progress | None, work: Work | None) -> tuple[float, float | None]:
    """The amount done and the total: bytes of files, offsets, or tasks; None if unknown."""
    if progress is None:
        return (0, None) if work is None or not work.of else (work.done, work.of)
    if progress.share is not None:
        return progress.share
    return (0, None) if progress.behind is None else (progress.rows, progress.rows + progress.behind)


def shown(progress: Progress | None, work: Work | None, seconds: float) -> str:
    """One line. `seconds` is the time since the first batch was done."""
    under_way = "" if work is None or not work.of else f"{work.done} of {work.of} tasks"
    if progress is None:
        return ", ".join(each for each in ("" if work is None else work.what, under_way) if each)
    parts = [f"batch {progress.batches}: {progress.rows:,} records", f"{progress.rate:,.0f} a second"]
    if progress.share is not None:
        parts.append(f"{size(progress.share[0])} of {size(progress.share[1])}")
    if progress.behind is not None:
        parts.append(f"{progress.behind:,} offsets behind")
    if left := left_seconds(progress, work, seconds):
        parts.append(f"about {duration(left)} left")
    return ", ".join(parts) + (f"; next: {under_way}" if under_way else "")


def left_seconds(progress: Progress, work: Work | None, seconds: float) -> int:
    """The remaining seconds at the rate so far; 0 if unknown. The first batch is not timed, so the rate is that of the
    later ones."""
    done, total = share_of(progress, work)
    if total is None or progress.batches < 2 or not done or total <= done:
        return 0
    return round(seconds / (progress.batches - 1) * progress.batches * (total - done) / done)


def duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
