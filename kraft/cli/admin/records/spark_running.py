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
    from kraft.spark.jobs.running import Progress, Say, Told, Work

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
    """Where the metrics of a command are served; None: nowhere."""

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

    def say(told: Told) -> None:
        metrics.note(told)
        printer.say(told)

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
    """Serve the metrics while the body runs, if there is an address, and tell where. Raises JobFailed."""
    from kraft.spark.jobs.metrics import served
    from kraft.spark.jobs.running import Notice

    if at is None:
        yield
        return
    with served(metrics, at) as url:
        say(Notice(f"metrics at {url}"))
        yield


def run_here(deed: Callable[[Say], dict[str, Any]], serving: Serving) -> dict[str, Any]:
    """The summary of a job that needs no Spark. What goes wrong is said as by `run`."""
    from kraft.spark.jobs.metrics import JobMetrics
    from kraft.spark.jobs.running import JobNotFound, Notice

    begun, metrics = time.monotonic(), JobMetrics(serving.command)

    def say(told: Told) -> None:
        metrics.note(told)
        if isinstance(told, Notice):
            sys.stderr.write(f"{told.text}\n")

    try:
        with served_if_asked(metrics, serving.at, say), metrics.failure_counted():
            summary = deed(say)
    except KraftError as problem:
        sys.stderr.write(f"kraft: {problem}\n")
        raise typer.Exit(NOT_FOUND if isinstance(problem, JobNotFound) else FAILED) from problem
    return {**summary, "seconds": round(time.monotonic() - begun, 1)}


class Printer:
    """Prints the progress of a job on stderr: a bar on a terminal, elsewhere a line from time to time. Used by several
    threads. `now` is a clock in seconds."""

    def __init__(self, quiet: bool, is_terminal: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        self.quiet, self.is_terminal, self.now = quiet, is_terminal, now
        self.lock = threading.Lock()
        self.progress: Progress | None = None
        self.work: Work | None = None
        self.begun_s = self.told_s = now()
        self.told = ""
        self.bar: Bar | None = None

    def say(self, told: Told) -> None:
        """Print what concerns the user now. A merged part is told by the line of the next one."""
        from kraft.spark.jobs.running import Notice, Part

        with self.lock:
            if isinstance(told, Notice):
                if told.is_warning or not self.quiet:
                    self.write(f"warning: {told.text}" if told.is_warning else told.text)
            elif not self.quiet and not isinstance(told, Part):
                self.note(told)

    def note(self, told: Progress | Work) -> None:
        """Print the progress, unless it is unchanged or a line of the same kind was printed just now."""
        from kraft.spark.jobs.running import Work

        is_other = isinstance(told, Work) and (self.work is None or told.what != self.work.what)
        if isinstance(told, Work):
            self.work = told
        else:
            if not told.batches:
                return
            is_other = self.progress is None
            if is_other:
                self.begun_s = self.now()
            self.progress = told
        text = shown(self.progress, self.work, self.now() - self.begun_s)
        if self.is_terminal:
            self.draw(text)
        elif text != self.told and (is_other or self.now() - self.told_s >= LINE_SECONDS):
            self.told, self.told_s = text, self.now()
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
