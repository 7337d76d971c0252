"""Waiting until the committed metadata shows a broker's own registration."""

from __future__ import annotations

import trio

from kraft.metadata.loader import MetadataLoader
from kraft.metadata.publisher import MetadataUpdate


class _Watch:
    """A publisher that looks for one incarnation of a broker."""

    def __init__(self, broker_id: int, epoch: int) -> None:
        self._broker_id = broker_id
        self._epoch = epoch
        self.seen = trio.Event()

    def publish(self, update: MetadataUpdate) -> None:
        """See `kraft.metadata.publisher.MetadataPublisher`."""
        broker = update.image.cluster.brokers.get(self._broker_id)
        if broker is not None and broker.epoch >= self._epoch:
            self.seen.set()


async def shows_registration(loader: MetadataLoader, broker_id: int, epoch: int) -> None:
    """Return once the metadata shows the broker in that epoch."""
    watch = _Watch(broker_id, epoch)
    loader.add_publisher(watch)
    await watch.seen.wait()
