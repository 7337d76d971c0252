"""Fetches the loss reports of unclean elections, as an operator would: GET /v1/elections/unclean of any node.

Only the reports of a partition's latest elections are kept, so they are fetched all the time, and new ones are
recorded.
"""

from __future__ import annotations

import json
import time
import urllib.request
from typing import Any

from jepsen.db import ADMIN_PORT, Cluster
from jepsen.history import LossReport, Recorder
from jepsen.workloads.client import Client
from jepsen.workloads.final import stuck

PERIOD_SECONDS = 1.0
ASK_SECONDS_MAX = 2.0
COMPLETE_SECONDS_MAX = 30.0


class LossWatch(Client):
    """Watches the loss reports of one topic."""

    def __init__(self, name: str, recorder: Recorder, cluster: Cluster, seed: int, topic: str) -> None:
        super().__init__(name, recorder, cluster.servers, seed)
        self.cluster = cluster
        self.topic = topic
        self._known: list[LossReport] = []

    def work(self) -> None:
        self._ask()
        self.stopping.wait(PERIOD_SECONDS)

    def look(self) -> None:
        """Fetch the reports once every replica is in sync again, when they have to be complete."""
        deadline = time.monotonic() + COMPLETE_SECONDS_MAX
        while True:
            asked = self._ask()
            awaited = [report for report in self._known if not report.complete]
            if asked and not awaited:
                return
            if time.monotonic() > deadline:
                what = (
                    f"reports of unclean elections await replicas that are in sync: {awaited}"
                    if asked
                    else "no node tells what unclean elections cost"
                )
                stuck(self.recorder, f"{what} ({COMPLETE_SECONDS_MAX:g} s after all was)")
                return
            time.sleep(0.3)

    def _ask(self) -> bool:
        """Fetch the reports from one node. Returns whether it answered."""
        numbers = [number for number, node in self.cluster.nodes.items() if node.alive and not node.paused]
        if not numbers:
            return False
        host = self.cluster.network.listens(self.chance.choice(numbers))
        try:
            with urllib.request.urlopen(
                f"http://{host}:{ADMIN_PORT}/v1/elections/unclean?topic={self.topic}", timeout=ASK_SECONDS_MAX
            ) as answer:
                found = [self._report(each) for each in json.load(answer)["data"]]
        except (OSError, ValueError):
            return False
        if found != self._known:
            self._known = found
            self.recorder.loss_reports(found)
        return True

    def _report(self, told: dict[str, Any]) -> LossReport:
        lost = [each for each in told["losses"] if each["state"] == "lost"]
        return LossReport(
            topic=self.topic,
            partition=told["partition_id"],
            leader_epoch=told["leader_epoch"],
            complete=told["complete"],
            lost={each["replica"]: (each["start_offset"], each["end_offset"]) for each in lost},
            unknown=[each["replica"] for each in told["losses"] if each["state"] in ("awaited", "gone")],
            committed={each["replica"]: each["high_watermark"] for each in lost},
        )
