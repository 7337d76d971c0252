"""Report the progress of Spark's running tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kraft.spark.jobs.running import Say, Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 1.0


def tasks(session: SparkSession) -> tuple[int, int, dict[int, int]]:
    """Return the number of completed tasks, and of all tasks, in the stages that run now, and the failed attempts of
    each of these stages."""
    tracker: Any = session.sparkContext.statusTracker()
    stages = {each: tracker.getStageInfo(each) for each in tracker.getActiveStageIds()}
    found = {each: stage for each, stage in stages.items() if stage is not None}
    return (
        sum(each.numCompletedTasks for each in found.values()),
        sum(each.numTasks for each in found.values()),
        {each: stage.numFailedTasks for each, stage in found.items() if stage.numFailedTasks},
    )


@contextmanager
def watched(session: SparkSession, say: Say, what: str) -> Iterator[None]:
    """Report the progress of tasks every second while the body runs. `what` names their work."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(POLL_SECONDS):
            say(Work(what, *tasks(session)))

    say(Work(what))
    thread = threading.Thread(target=watch, name="kraft-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
