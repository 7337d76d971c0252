"""Rows of one task straight to the leaders of their partitions, at least once."""

from __future__ import annotations

from kraft.spark.client.wire import WireCluster
from kraft.spark.sink.batch_sender import BatchSender, Outgoing, new_producer
from kraft.spark.sink.incoming_columns import Incoming
from kraft.spark.sink.row_packer import RowPacker

SEND_BYTES = 2 << 20
"""Of batches that are full before they are sent."""


class SenderPool:
    """One idle sender by cluster for each Python worker: a producer id a task would be too many for nodes, which
    remember them for a day."""

    def __init__(self) -> None:
        self.senders: dict[WireCluster, BatchSender] = {}

    def get(self, cluster: WireCluster) -> BatchSender:
        """Raises WireError, OSError."""
        if cluster not in self.senders:
            sender = BatchSender(cluster, None)
            sender.become(*new_producer(cluster))
            self.senders[cluster] = sender
        return self.senders[cluster]

    def discard(self, cluster: WireCluster) -> None:
        """What it has under way is not known any more."""
        self.senders.pop(cluster, None)


# One per Python worker process, by intent: Spark offers no other place to keep a client between tasks.
POOL = SenderPool()


class LeastWriter:
    """Batches are sent once there are SEND_BYTES of them, and the rest by `finish`."""

    def __init__(self, cluster: WireCluster, task: int, codec: int) -> None:
        self.sender = POOL.get(cluster)
        self.packer = RowPacker(cluster, task, codec, self.take)
        self.outgoing: list[Outgoing] = []
        self.size = 0

    def write(self, incoming: Incoming) -> None:
        """Raises SourceError for a row without a topic, ValueError for one whose partition is not there, WireError,
        OSError."""
        self.packer.write(incoming)

    def take(self, topic: str, partition: int, _: int, data: bytes) -> None:
        self.outgoing.append(Outgoing(topic, partition, data))
        self.size += len(data)
        if self.size >= SEND_BYTES:
            self.send()

    def send(self) -> None:
        """The leaders take these batches while the next ones are made."""
        self.sender.finish()
        self.sender.start(self.outgoing)
        self.outgoing, self.size = [], 0

    def finish(self) -> None:
        """All rows are acknowledged then. Raises WireError, OSError."""
        self.packer.pack_all()
        self.send()
        self.sender.finish()
