"""Observes the leaders: asks the nodes twice a second, for the nemesis (which aims by role), the report and the
validity of the run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from jepsen.db import Cluster
from jepsen.history import Recorder, Sample
from kraft.common.errors import KraftError
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

PERIOD_SECONDS = 0.5
ASK_SECONDS_MAX = 1.0
QUORUM = DescribeQuorumRequest(
    topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
)
FAILURES = (OSError, TimeoutError, KraftError)


class Observer:
    """Keeps the newest state that any node reported. The higher leader epoch wins, so the report of an isolated node
    counts only until a newer one arrives."""

    def __init__(self, cluster: Cluster, recorder: Recorder, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._topics = list(topics)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer")
        self._turn = 0
        self.latest = Sample(at=0.0)

    def start(self) -> None:
        self.look()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD_SECONDS):
            self.look()

    def look(self) -> Sample:
        """Ask one node, in rotation."""
        numbers = [number for number, node in self._cluster.nodes.items() if node.alive and not node.paused]
        self._turn += 1
        if numbers:
            node = numbers[self._turn % len(numbers)]
            sample = Sample(
                at=self._recorder.now(),
                controller=self.latest.controller,
                controller_epoch=self.latest.controller_epoch,
            )
            sample.partitions = dict(self.latest.partitions)
            self._ask_quorum(node, sample)
            self._ask_partitions(node, sample)
            self.latest = sample
            self._recorder.sample(sample)
        return self.latest

    def _ask_quorum(self, node: int, sample: Sample) -> None:
        found = self._described(node)
        if found is not None and found.leader_epoch >= sample.controller_epoch:
            sample.controller, sample.controller_epoch = found.leader_id, found.leader_epoch

    def _ask_partitions(self, node: int, sample: Sample) -> None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in self._topics], allow_auto_topic_creation=False
        )
        try:
            found = self._cluster.ask(node, request, ASK_SECONDS_MAX)
        except FAILURES:
            return
        for topic in found.topics:
            for partition in topic.partitions:
                name = f"{topic.name}-{partition.partition_index}"
                known = sample.partitions.get(name)
                if known is None or partition.leader_epoch >= known[1]:
                    sample.partitions[name] = (
                        partition.leader_id,
                        partition.leader_epoch,
                        list(partition.isr_nodes),
                        list(partition.replica_nodes),
                    )

    def quorum(self) -> Any:
        """Return the quorum's partition of DescribeQuorum from any node that answers, or None."""
        for number, node in self._cluster.nodes.items():
            if node.alive and not node.paused:
                found = self._described(number)
                if found is not None:
                    return found
        return None

    def _described(self, node: int) -> Any:
        """Return the quorum's partition of DescribeQuorum from one node. None if it does not answer, refuses the
        request as a whole (then there is no partition), or knows no leader."""
        try:
            answer = self._cluster.ask(node, QUORUM, ASK_SECONDS_MAX)
        except FAILURES:
            return None
        found = answer.topics[0].partitions[0] if answer.topics else None
        return found if found is not None and found.error_code == 0 and found.leader_id >= 0 else None

    def is_voter(self, number: int) -> bool:
        """Whether the quorum has the node as a voter."""
        found = self.quorum()
        return found is not None and number in {each.replica_id for each in found.current_voters}

    def coordinator(self, group: str) -> int:
        """The node that coordinates a group, or -1."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        for number, node in self._cluster.nodes.items():
            if node.alive and not node.paused:
                try:
                    return int(self._cluster.ask(number, request, ASK_SECONDS_MAX).coordinators[0].node_id)
                except FAILURES:
                    continue
        return -1
