"""The names of Kafka's client keys (producer, consumer and admin client of 4.4). They distinguish a misspelt key from a
key that is in the file for other programs. Keys with the prefix `ssl.` or `sasl.` are checked separately."""

from __future__ import annotations

from typing import Final

_NAMES: Final = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size bootstrap.controllers
    bootstrap.resolve.timeout.ms bootstrap.servers buffer.memory buffer.memory.allocation.strategy check.crcs
    client.dns.lookup client.id client.rack compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level config.providers connections.max.idle.ms default.api.timeout.ms delivery.timeout.ms
    enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor
    heartbeat.interval.ms interceptor.classes internal.throw.on.fetch.stable.offset.unsupported isolation.level
    key.deserializer key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records max.request.size metadata.cluster.check.enable
    metadata.max.age.ms metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
    partitioner.class partitioner.ignore.keys partitioner.rack.aware receive.buffer.bytes reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms security.protocol
    security.providers send.buffer.bytes session.timeout.ms share.acknowledgement.mode share.acquire.mode
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms transaction.timeout.ms
    transaction.two.phase.commit.enable transactional.id value.deserializer value.serializer
"""
CLIENT_KEY_NAMES: Final = tuple(_NAMES.split())


def misspelt(name: str) -> str | None:
    """Return the key of Kafka that a misspelt key probably means. None for a valid key, and for one that resembles
    none."""
    import difflib  # A rare path that should not slow down every start.

    if name in CLIENT_KEY_NAMES:
        return None
    close = difflib.get_close_matches(name.lower().replace("_", ".").replace("-", "."), CLIENT_KEY_NAMES, 1, 0.88)
    return close[0] if close else None
