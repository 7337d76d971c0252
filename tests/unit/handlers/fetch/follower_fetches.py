"""Fetches of followers, as tests send them."""

from __future__ import annotations

from typing import Any

from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from tests.unit.server.brokers import NODE, Broker, batch

VERSION = 17


PARTITIONS = 20


class Follower:
    """Broker 2, which follows every partition of a topic here, as far as it is told."""

    def __init__(self, made: Broker) -> None:
        made.publish(made.register(2))
        self.made = made
        self.topic_id = made.topic("t", PARTITIONS, replicas=(NODE, 2))
        self.session_id = self.epoch = 0
        self.replica_epoch = 1
        self.looked_at: list[int] = []
        for index in range(PARTITIONS):
            self._count(index)

    def _count(self, index: int) -> None:
        """Notes each acknowledgement that reaches the partition."""
        partition = self.made.partition("t", index)
        state = partition.followers[2]  # type: ignore[index]
        original = state.fetched

        class Counted(type(state)):  # type: ignore[misc]
            __slots__ = ()

            def fetched(state: Any, *arguments: Any) -> None:
                self.looked_at.append(index)
                super().fetched(*arguments)

        del original
        state.__class__ = Counted

    def request(
        self,
        offsets: dict[int, int],
        wait_ms: int = 0,
        forget: tuple[int, ...] = (),
        min_bytes: int = 1,
        epoch: int = 0,
        last_epoch: int = 0,
    ) -> FetchRequest:
        """`epoch` is the leader epoch, and `last_epoch` that of the record before each offset."""
        partitions = [
            FetchPartition(
                partition=index,
                fetch_offset=offset,
                current_leader_epoch=epoch,
                last_fetched_epoch=last_epoch if offset else -1,
                partition_max_bytes=1 << 20,
            )
            for index, offset in offsets.items()
        ]
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=10 << 20,
            session_id=self.session_id,
            session_epoch=self.epoch,
            replica_state=ReplicaState(replica_id=2, replica_epoch=self.replica_epoch),
            topics=[FetchTopic(topic_id=self.topic_id, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=self.topic_id, partitions=list(forget))] if forget else [],
        )

    async def fetch(self, offsets: dict[int, int], wait_ms: int = 0, forget: tuple[int, ...] = ()) -> dict[int, Any]:
        """What is answered, by partition."""
        self.looked_at.clear()
        return self.take(await self.made.ask(self.request(offsets, wait_ms, forget), VERSION))

    async def ask(self, offsets: dict[int, int], *, epoch: int, last_epoch: int = 0) -> dict[int, Any]:
        """What is answered to a fetch in this leader epoch, by partition."""
        return self.take(await self.made.ask(self.request(offsets, epoch=epoch, last_epoch=last_epoch), VERSION))

    def take(self, response: Any) -> dict[int, Any]:
        assert not response.error_code
        self.session_id = response.session_id
        self.epoch += 1
        return {data.partition_index: data for topic in response.responses for data in topic.partitions}

    def append(self, index: int) -> None:
        now = self.made.world.clock.wall_ms()
        self.made.partition("t", index).append(memoryview(batch(b"v", timestamp_ms=now)), 1, now, 0)
