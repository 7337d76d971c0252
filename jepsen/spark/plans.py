"""Plan batch reads continuously while nodes die. A plan is the work of the driver before any task runs; it needs no
Spark."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from jepsen.spark.checks import Plan
from jepsen.spark.writer import NumberedWriter
from kraft.spark.errors import NotYetKnown
from kraft.spark.source.options import batch_options

PAUSE_SECONDS = 0.1


class SteadyPlanner:
    """Makes plans until its context ends. Each plan is kept with the offsets that were acknowledged before the plan
    began."""

    def __init__(self, bootstrap: str, topic: str, writer: NumberedWriter) -> None:
        self.options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        self.writer = writer
        self.plans: list[Plan] = []
        self.broken: BaseException | None = None
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.work)

    def work(self) -> None:
        try:
            while not self.stopped.is_set():
                self.plans.append(self.plan())
                self.stopped.wait(PAUSE_SECONDS)
        except BaseException as problem:
            self.broken = problem
            raise

    def plan(self) -> Plan:
        """Make one plan. A clear error is recorded as a failed plan; any other error ends the planner."""
        from kraft.spark.source.batch_reader import KafkaBatchReader

        needed, began = dict(self.writer.ends), time.monotonic()
        ranges: dict[int, tuple[int, int]] = {}
        failed = ""
        try:
            tasks = KafkaBatchReader(batch_options(self.options)).partitions()
            ranges = {each.partition: (each.start, each.end) for task in tasks for each in task.value or ()}
        except NotYetKnown as problem:
            failed = str(problem)
        return Plan(needed=needed, ranges=ranges, failed=failed, seconds=time.monotonic() - began)

    def __enter__(self) -> SteadyPlanner:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped.set()
        self.thread.join()
