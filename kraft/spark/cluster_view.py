"""What Metadata answers have told of a cluster: its nodes, and who leads what. Pure."""

from __future__ import annotations

from typing import Any

from kraft.spark.leadership import Leader, TopicLeaders, leaders_of, merged


class ClusterView:
    """Never goes back to an older leader epoch of a topic, nor to the nodes of an answer that tells one."""

    def __init__(self) -> None:
        self.nodes: dict[int, tuple[str, int]] = {}
        self.topics: dict[str, TopicLeaders] = {}
        self.current: set[str] = set()  # topics that need not be asked for again

    def learn(self, topic: str, answer: Any) -> Any:
        """Take what is new in a Metadata answer, and answer what it says of the topic."""
        found = answer.topics[0]
        told = None if found.error_code else leaders_of(found)
        if told is not None:
            self.topics[topic] = merged(self.topics.get(topic), told)
        if answer.brokers and (told is None or self.topics[topic].partitions == told.partitions or not self.nodes):
            self.nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return found

    def leader(self, topic: str, partition: int) -> Leader | None:
        """The leader of the newest epoch that any node has told."""
        return self.topics[topic].partitions.get(partition) if topic in self.topics else None

    def epoch(self, topic: str, partition: int) -> int:
        """The newest leader epoch known, -1 if none: for requests that read."""
        leader = self.leader(topic, partition)
        return -1 if leader is None else leader.epoch
