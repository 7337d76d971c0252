"""The newest committed metadata as this node sees it, and what handlers derive from it.

Set by the publisher; read by everyone between two awaits as one value. Encoded Metadata answers are kept until topics
or brokers change: other records (a no-op comes every half second) leave them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import trio

from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.world.ports import Clock

ENCODED_BYTES_MAX = 16 << 20
"""Of requests and answers together. An answer about every partition of a large cluster takes a megabyte."""
ENCODED_KEY_BYTES_MAX = 64 * 1024
ENCODED_OVERHEAD_BYTES = 300  # Of a key, an answer and their place, beside what they hold.


LATELY_SECONDS = 9.0
"""Kafka's session timeout: for so long it would still list a broker that died."""


EncodedKey = tuple[int, str, bytes, str]
"""API version, listener, the request's body, and who asks where that matters."""


class BrokerNode(NamedTuple):
    """A broker as a client of one listener reaches it."""

    id: int
    host: str
    port: int
    rack: str | None


class MetadataCache:
    """Owned by the node's loop."""

    def __init__(self, clock: Clock, image: MetadataImage) -> None:
        self._clock = clock
        self._changed = trio.Event()
        self._nodes: dict[str, tuple[BrokerNode, ...]] = {}
        self._lately: dict[int, float] = {}
        self.encoded: dict[EncodedKey, bytes | bytearray] = {}
        self.being_made: dict[EncodedKey, trio.Event] = {}
        """Answers that are being made now; set when they are there."""
        self._encoded_bytes = 0
        self.image = image
        self.offset = -1
        self.names_offset = -1
        """The offset of the image in which a topic has come or gone for the last time."""
        self.epoch = -1

    def set(self, image: MetadataImage, offset: int, epoch: int, *, names_changed: bool = True) -> None:
        """Take over the image as of `offset` (the last record's); wakes those who wait for it. `names_changed`:
        topics may have come or gone since the one before."""
        if image.cluster is not self.image.cluster:
            self._note_deaths(image)
            self._nodes.clear()
            self._forget_encoded()
        elif image.topics is not self.image.topics or image.acls is not self.image.acls:
            self._forget_encoded()
        self.image = image
        self.offset = offset
        if names_changed:
            self.names_offset = offset
        self.epoch = epoch
        if self._changed.statistics().tasks_waiting:
            self._changed.set()
            self._changed = trio.Event()

    async def wait_until(self, condition: Callable[[MetadataImage], bool], timeout: float) -> bool:
        """Wait until `condition` holds of the image; False when `timeout` seconds pass first."""
        deadline = self._clock.now() + timeout
        while not condition(self.image):
            if self._clock.now() >= deadline:
                return False
            changed = self._changed
            with self._clock.move_on_at(deadline):
                await changed.wait()
        return True

    def remember(self, key: EncodedKey, body: bytes | bytearray, image: MetadataImage) -> None:
        """Keep `body`, made as of `image`, for the same request, unless that is so long that keeping it costs more
        than answering again. What is kept stays within a bound.

        Nothing is kept while brokers are listed that died lately: they are not listed for long.
        """
        now = self.image
        if image.topics is not now.topics or image.cluster is not now.cluster or image.acls is not now.acls:
            return
        if self._lately:
            return
        size = len(key[2]) + len(body) + ENCODED_OVERHEAD_BYTES
        if len(key[2]) > ENCODED_KEY_BYTES_MAX or size > ENCODED_BYTES_MAX:
            return
        if self._encoded_bytes + size > ENCODED_BYTES_MAX:
            self._forget_encoded()
        if key not in self.encoded:
            self._encoded_bytes += size
        self.encoded[key] = body

    def _forget_encoded(self) -> None:
        self.encoded.clear()
        self._encoded_bytes = 0

    def live_brokers(self, listener: str) -> tuple[BrokerNode, ...]:
        """Unfenced brokers that have this listener, by id."""
        nodes = self._nodes.get(listener)
        if nodes is None:
            found = (node_of(broker, listener) for broker in self.image.cluster.brokers.values() if not broker.fenced)
            nodes = self._nodes[listener] = tuple(node for node in found if node is not None)
        return nodes

    def listed_brokers(self, listener: str) -> tuple[BrokerNode, ...]:
        """What Metadata lists: live brokers, and those that died a moment ago; all registered ones if none is live.

        librdkafka drops a broker at once when it is no longer listed, and with it, for a second, the partitions that
        have just found a new leader. A client of librdkafka that is told of no broker at all has nobody left to ask
        and never recovers: the last broker of a cluster answers so between its goodbye and its end.
        """
        live = self.live_brokers(listener)
        if not live:
            registered = (node_of(broker, listener) for broker in self.image.cluster.brokers.values())
            return tuple(node for node in registered if node is not None)
        if not self._lately:
            return live
        now = self._clock.now()
        self._lately = {broker: until for broker, until in self._lately.items() if until > now}
        brokers = self.image.cluster.brokers
        dead = [
            node_of(brokers[broker], listener)
            for broker in self._lately
            if broker in brokers and brokers[broker].fenced
        ]
        return tuple(sorted((*live, *(node for node in dead if node is not None))))

    def _note_deaths(self, image: MetadataImage) -> None:
        """Note the brokers that were fenced without a controlled shutdown."""
        until = self._clock.now() + LATELY_SECONDS
        for broker in self.image.cluster.brokers.values():
            now = image.cluster.brokers.get(broker.id)
            if broker.is_active and now is not None and now.fenced:
                self._lately[broker.id] = until

    def is_live(self, broker_id: int) -> bool:
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def may_be_in_sync(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether that incarnation of a broker may be in an in-sync set: neither fenced nor leaving (KIP-841,
        KIP-903; epoch -1: not told)."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.is_active and broker_epoch in (-1, broker.epoch)

    def endpoint_of(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Host and port of a broker's listener, None where that is not known."""
        broker = self.image.cluster.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def leader_of(self, topic: str, index: int) -> tuple[int, int] | None:
        """(leader, leader epoch) of a partition, or None when there is no such partition."""
        image = self.image.topics.by_name(topic)
        partition = None if image is None else image.partitions.get(index)
        return None if partition is None else (partition.leader, partition.leader_epoch)


def node_of(broker: BrokerRegistration, listener: str) -> BrokerNode | None:
    endpoint = broker.endpoint(listener)
    return None if endpoint is None else BrokerNode(broker.id, endpoint.host, endpoint.port, broker.rack)
