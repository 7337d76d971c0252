"""The newest committed metadata on this node, and data that handlers derive from it.

Set by the publisher, and read as one value between two awaits. Encoded Metadata responses are cached until topics,
brokers or ACLs change. Other records (a no-op arrives every half second) leave them valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import trio

from kraft.metadata.image.cluster_image import BrokerRegistration
from kraft.metadata.image.metadata_image import MetadataImage
from kraft.world.ports import Clock

ENCODED_BYTES_MAX = 16 << 20
"""Limit of cached requests and responses together. A response for every partition of a large cluster takes a
megabyte."""
ENCODED_KEY_BYTES_MAX = 64 * 1024
ENCODED_OVERHEAD_BYTES = 300  # Overhead of a cached key and response beside their bytes.


LATELY_SECONDS = 9.0
"""How long a dead broker is still listed in Metadata responses. In Kafka it is listed until its session ends, after
this time."""


EncodedKey = tuple[int, str, bytes, str]
"""API version, listener, the request's body, and the principal if the response depends on it."""


class BrokerNode(NamedTuple):
    """A broker's address on one listener."""

    id: int
    host: str
    port: int
    rack: str | None


class MetadataCache:
    """The metadata of one node. Owned by the node's loop."""

    def __init__(self, clock: Clock, image: MetadataImage) -> None:
        self._clock = clock
        self._changed = trio.Event()
        self._nodes: dict[str, tuple[BrokerNode, ...]] = {}
        self._lately: dict[int, float] = {}
        self.encoded: dict[EncodedKey, bytes | bytearray] = {}
        self.being_made: dict[EncodedKey, trio.Event] = {}
        """Responses that are being encoded. The event is set when they are cached."""
        self._encoded_bytes = 0
        self.image = image
        self.offset = -1
        self.names_offset = -1
        """The offset of the last image in which a topic was created or deleted."""
        self.epoch = -1

    def set(self, image: MetadataImage, offset: int, epoch: int, *, names_changed: bool = True) -> None:
        """Set the image as of `offset` (that of the last record), and wake tasks that wait for it. `names_changed`:
        topics may have been created or deleted since the previous image."""
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
        """Wait until `condition` holds for the image. Returns False if `timeout` seconds pass first."""
        deadline = self._clock.now() + timeout
        while not condition(self.image):
            if self._clock.now() >= deadline:
                return False
            changed = self._changed
            with self._clock.move_on_at(deadline):
                await changed.wait()
        return True

    def remember(self, key: EncodedKey, body: bytes | bytearray, image: MetadataImage) -> None:
        """Cache `body`, encoded from `image`, for the same request, unless it is so long that caching costs more than
        encoding again. The total size is bounded.

        Nothing is cached while recently dead brokers are listed, because that lasts only for a short time.
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
        """Return the unfenced brokers that have this listener, by id."""
        nodes = self._nodes.get(listener)
        if nodes is None:
            found = (node_of(broker, listener) for broker in self.image.cluster.brokers.values() if not broker.fenced)
            nodes = self._nodes[listener] = tuple(node for node in found if node is not None)
        return nodes

    def listed_brokers(self, listener: str) -> tuple[BrokerNode, ...]:
        """Return the brokers to list in Metadata: live and recently dead ones; if none is live, all registered ones.

        librdkafka drops a broker as soon as it is no longer listed, and with it, for a second, the partitions that have
        just got a new leader. A librdkafka client that receives no broker at all can ask no broker any more and never
        recovers. The last broker of a cluster would send such a response during its shutdown.
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
        """Record the brokers that were fenced without a controlled shutdown."""
        until = self._clock.now() + LATELY_SECONDS
        for broker in self.image.cluster.brokers.values():
            now = image.cluster.brokers.get(broker.id)
            if broker.is_active and now is not None and now.fenced:
                self._lately[broker.id] = until

    def is_live(self, broker_id: int) -> bool:
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def may_be_in_sync(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether that incarnation of a broker may be in an in-sync replica set: neither fenced nor shutting down
        (KIP-841, KIP-903). Epoch -1 means that none was named."""
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.is_active and broker_epoch in (-1, broker.epoch)

    def endpoint_of(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Return host and port of a broker's listener; None if it is not known."""
        broker = self.image.cluster.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def leader_of(self, topic: str, index: int) -> tuple[int, int] | None:
        """Return (leader, leader epoch) of a partition, or None if the partition does not exist."""
        image = self.image.topics.by_name(topic)
        partition = None if image is None else image.partitions.get(index)
        return None if partition is None else (partition.leader, partition.leader_epoch)


def node_of(broker: BrokerRegistration, listener: str) -> BrokerNode | None:
    endpoint = broker.endpoint(listener)
    return None if endpoint is None else BrokerNode(broker.id, endpoint.host, endpoint.port, broker.rack)
