"""Topics and records for tests. Each call opens its own connections, since the cluster may be cut apart between two
calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import trio

from kraft.admin import configs as admin_configs
from kraft.admin import topics
from kraft.admin.errors import UNKNOWN_TOPIC
from kraft.admin.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, offsets_at
from kraft.common.ids import TopicPartition
from kraft.rpc_client.cluster import Cluster
from kraft.rpc_client.consumer import ConsumedRecord, Consumer
from kraft.rpc_client.producer import open_producer
from kraft.testing.records import Record, Stored, as_bytes, as_property, as_setting
from kraft.world.ports import Login, Tls
from kraft.world.real import RealWorld

CONNECT_SECONDS = 2.0
REQUEST_SECONDS = 5.0
OPERATION_SECONDS = 30.0
POLL_SECONDS = 0.2


class ClusterClient:
    """An ordinary client: its requests go through sockets, and are subject to cuts between clients and nodes."""

    def __init__(
        self, addresses: Callable[[], Sequence[tuple[str, int]]], *, tls: Tls | None, login: Login | None
    ) -> None:
        """`addresses` returns the bootstrap addresses to try now, the best first. `tls` and `login` secure the
        connections."""
        self._addresses = addresses
        self._tls = tls
        self._login = login

    def connect(self) -> AbstractAsyncContextManager[Cluster]:
        return Cluster(
            RealWorld(log_sink=lambda event: None, tls=self._tls, login=self._login),
            self._addresses(),
            client_id="kraft-testing",
            connect_seconds=CONNECT_SECONDS,
            request_seconds=REQUEST_SECONDS,
            operation_seconds=OPERATION_SECONDS,
        )

    async def create_topic(self, name: str, partitions: int, replicas: int, configs: Mapping[str, object]) -> None:
        """Create a topic. Raises ApiError, also if the topic exists."""
        settings = {as_property(key): as_setting(value) for key, value in configs.items()}
        async with self.connect() as cluster:
            await topics.create_topic(
                cluster, name, partitions=partitions, replication_factor=replicas, configs=settings
            )

    async def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises ApiError."""
        async with self.connect() as cluster:
            await topics.delete_topic(cluster, name)

    async def configure_group(self, group: str, settings: Mapping[str, str]) -> None:
        """Set configurations of a group. Raises ApiError."""
        changes = [(key, admin_configs.SET, value) for key, value in settings.items()]
        async with self.connect() as cluster:
            await admin_configs.alter_configs(cluster, admin_configs.Resource(admin_configs.GROUP, group), changes)

    async def coordinator(self, group: str) -> int:
        """Return the group's coordinator. Creates the topic of committed offsets if it does not exist. Raises
        DeadlinePassed."""
        async with self.connect() as cluster:
            return await cluster.retrying(lambda: cluster.coordinator(group))

    async def produce(
        self,
        topic: str,
        values: Sequence[bytes | str | None],
        key: bytes | str | None,
        partition: int | None,
        headers: Mapping[str, bytes | str | None],
        seconds: float,
    ) -> list[Stored]:
        """Write a record for each value, acknowledged by all in-sync replicas. Raises ApiError, DeadlinePassed."""
        given = tuple((name, as_bytes(value)) for name, value in headers.items())
        async with self.connect() as cluster, open_producer(cluster, delivery_seconds=seconds) as producer:
            sent = [
                await producer.send(topic, as_bytes(value), as_bytes(key), partition=partition, headers=given)
                for value in values
            ]
            done = [await delivery.wait() for delivery in sent]
            return [Stored(partition=delivery.partition.partition, offset=delivery.offset) for delivery in done]

    async def consume(
        self, topic: str, count: int | None, partition: int | None, is_committed: bool, seconds: float
    ) -> list[Record]:
        """Read from the beginning: `count` records, or all that exist now. Raises ApiError, or TimeoutError with the
        number of records read within `seconds`."""
        isolation = READ_COMMITTED if is_committed else READ_UNCOMMITTED
        found: list[ConsumedRecord] = []
        async with self.connect() as cluster:
            with trio.move_on_after(seconds) as patience:
                reader = Consumer(cluster, isolation=isolation)
                described = await cluster.retrying(lambda: cluster.topic(topic), final=UNKNOWN_TOPIC)
                chosen = [each for each in described.topic_partitions() if partition in (None, each.partition)]
                starts, ends = await _ends(cluster, chosen, isolation)
                reader.assign(starts)
                while _is_wanting(count, found, reader.positions, ends):
                    found += await reader.poll(POLL_SECONDS)
        if patience.cancelled_caught:
            wanted = "all" if count is None else str(count)
            raise TimeoutError(f"{len(found)} records of {topic} were read in {seconds:g} s, not {wanted}")
        return [_record(each) for each in found[:count]]


def _is_wanting(
    count: int | None,
    found: Sequence[ConsumedRecord],
    positions: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> bool:
    if count is not None:
        return len(found) < count
    return any(positions[partition] < end for partition, end in ends.items())


async def _ends(
    cluster: Cluster, partitions: Sequence[TopicPartition], isolation: int
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the start offset and the end offset of each partition."""

    async def attempt() -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        return (
            await offsets_at(cluster, partitions, EARLIEST),
            await offsets_at(cluster, partitions, LATEST, isolation=isolation),
        )

    return await cluster.retrying(attempt)


def _record(consumed: ConsumedRecord) -> Record:
    return Record(
        partition=consumed.partition.partition,
        offset=consumed.record.offset,
        timestamp_ms=consumed.record.timestamp,
        key=consumed.record.key,
        value=consumed.record.value,
        headers=consumed.record.headers,
    )
