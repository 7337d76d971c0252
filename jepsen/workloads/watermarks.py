"""Watches the ends of partitions, with ListOffsets to the leader under its epoch; they never go back."""

from __future__ import annotations

from collections.abc import Sequence

from jepsen.checker.operations import ListOffset, Partition
from jepsen.db import Cluster
from jepsen.history import Recorder
from jepsen.observer import FAILURES, Observer
from jepsen.workloads.client import Client
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST, EARLIEST = -1, -2
ASK_SECONDS_MAX = 1.0


class Watermarks(Client):
    """Lists offsets with kraft's own client, which can send the leader epoch."""

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        cluster: Cluster,
        observer: Observer,
        seed: int,
        places: Sequence[Partition],
    ) -> None:
        super().__init__(name, recorder, cluster.servers, seed)
        self.cluster = cluster
        self.observer = observer
        self.places = list(places)

    def work(self) -> None:
        topic, partition = self.chance.choice(self.places)
        kind = self.chance.choice((LATEST, LATEST, EARLIEST))
        leader, epoch, _, _ = self.observer.latest.partitions.get(f"{topic}-{partition}", (-1, -1, [], []))
        node = self.cluster.nodes.get(leader)
        if node is not None and node.alive:
            self._ask(leader, epoch, topic, partition, kind)
        self.stopping.wait(0.1)

    def _ask(self, leader: int, epoch: int, topic: str, partition: int, kind: int) -> None:
        wanted = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=kind)
        asked = ListOffset(
            process=self.name,
            began=self.recorder.now(),
            topic=topic,
            partition=partition,
            kind="latest" if kind == LATEST else "earliest",
            epoch=epoch,
        )
        self.recorder.begin(asked)
        try:
            found = self.cluster.ask(
                leader,
                ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]),
                ASK_SECONDS_MAX,
            )
        except FAILURES as problem:
            asked.failed(self.recorder.now(), type(problem).__name__, definite=True)
        else:
            answer = found.topics[0].partitions[0]
            if answer.error_code == 0:
                asked.offset = answer.offset
                asked.ok(self.recorder.now())
            else:
                asked.failed(self.recorder.now(), str(answer.error_code), definite=True)
        self.recorder.done(asked)
