"""Run a job of `kraft spark`, and say how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from kraft.cli.admin.options import parse_pairs
from kraft.cli.admin.running import FAILED, NOT_FOUND
from kraft.common.errors import KraftError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kraft.spark.jobs.running import Notice, Progress, Say

    Job = Callable[[SparkSession, Say], dict[str, Any]]


def run(master: str, conf: list[str], quiet: bool, job: Job) -> dict[str, Any]:
    """The summary of a job. What goes wrong is said on stderr and leaves with its exit code."""
    from kraft.spark.jobs.running import JobNotFound
    from kraft.spark.jobs.session import spark_session

    settings = parse_pairs(conf, "--conf")
    begun = time.monotonic()
    try:
        with spark_session(master, settings) as session:
            summary = job(session, Printer(quiet).say)
    except KraftError as problem:
        sys.stderr.write(f"kraft: {problem}\n")
        raise typer.Exit(NOT_FOUND if isinstance(problem, JobNotFound) else FAILED) from problem
    return {**summary, "seconds": round(time.monotonic() - begun, 1)}


class Printer:
    """Says how far a job is, on stderr, whenever that has changed."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.said: Progress | None = None

    def say(self, told: Progress | Notice) -> None:
        from kraft.spark.jobs.running import Notice

        if isinstance(told, Notice):
            if told.is_warning or not self.quiet:
                write(f"warning: {told.text}" if told.is_warning else told.text)
        elif told != self.said:
            if told.batches and not self.quiet:
                lag = "" if told.behind is None else f", {told.behind:,} offsets behind"
                write(f"batch {told.batches}: {told.rows:,} records, {told.rate:,.0f} a second{lag}")
            self.said = told


def write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
