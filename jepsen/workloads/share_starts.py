"""Asks for the start offsets of a share group, as `kafka-share-groups.sh` does; they never go back."""

from __future__ import annotations

from collections.abc import Sequence

from jepsen.checker.operations import Partition, ShareStart
from jepsen.db import Cluster
from jepsen.history import Recorder
from jepsen.observer import FAILURES
from jepsen.workloads.client import Client
from kraft.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest

PERIOD_SECONDS = 0.3
ASK_SECONDS_MAX = 3.0
GROUP_KEY = 0


class ShareStartWatch(Client):
    """Describes one partition of a share group after the other, at the group's coordinator."""

    def __init__(
        self, name: str, recorder: Recorder, cluster: Cluster, seed: int, places: Sequence[Partition], group: str
    ) -> None:
        super().__init__(name, recorder, cluster.servers, seed)
        self.cluster = cluster
        self.places = list(places)
        self.group = group
        self._coordinator = -1

    def work(self) -> None:
        node = self.cluster.nodes.get(self._coordinator)
        if node is None or not node.alive or node.paused:
            self._find()
        else:
            self._ask(*self.chance.choice(self.places))
        self.stopping.wait(PERIOD_SECONDS)

    def _find(self) -> None:
        """Ask a node for the group's coordinator."""
        numbers = [number for number, node in self.cluster.nodes.items() if node.alive and not node.paused]
        request = FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[self.group])
        try:
            found = self.cluster.ask(self.chance.choice(numbers), request, ASK_SECONDS_MAX) if numbers else None
        except FAILURES:
            found = None
        self._coordinator = -1 if found is None else found.coordinators[0].node_id

    def _ask(self, topic: str, partition: int) -> None:
        start = ShareStart(
            process=self.name, began=self.recorder.now(), topic=topic, partition=partition, group=self.group
        )
        wanted = DescribeShareGroupOffsetsRequestGroup(
            group_id=self.group,
            topics=[DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[partition])],
        )
        self.recorder.begin(start)
        try:
            answer = self.cluster.ask(
                self._coordinator, DescribeShareGroupOffsetsRequest(groups=[wanted]), ASK_SECONDS_MAX
            )
        except FAILURES as problem:
            self._coordinator = -1
            start.failed(self.recorder.now(), type(problem).__name__, definite=True)
        else:
            (group,) = answer.groups
            parts = [part for each in group.topics for part in each.partitions]
            code = group.error_code or next((part.error_code for part in parts), 0)
            if code or not parts:
                self._coordinator = -1
                start.failed(self.recorder.now(), str(code), definite=True)
            else:
                start.offset = parts[0].start_offset
                start.ok(self.recorder.now())
        self.recorder.done(start)
