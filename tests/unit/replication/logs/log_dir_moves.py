"""A broker with two log directories, between which a replica moves, and a controller that can be silent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import assign_replicas_to_dirs_response as answer
from kraft.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.replication.logs.mover import LogDirMove
from kraft.world.simulated import Universe
from tests.unit.server.brokers import Broker, batch, broker

FIRST, SECOND = "/one", "/two"


class Mover:
    """A broker with two log directories, and the controller's view of what is in which."""

    def __init__(self, made: Broker) -> None:
        self.made = made
        self.told: list[tuple[bytes, int]] = []
        self.silent = False
        made.controller.answers[73] = self._assign
        self.ids = {directory.path: bytes(directory.directory_id or b"") for directory in made.logs.directories}

    def _assign(self, request: Any) -> Any:
        directories = []
        for directory in request.directories:
            topics = []
            for topic in directory.topics:
                self.told += [(bytes(directory.id), data.partition_index) for data in topic.partitions]
                code = ErrorCode.REQUEST_TIMED_OUT if self.silent else ErrorCode.NONE
                partitions = [
                    answer.PartitionData(partition_index=data.partition_index, error_code=code)
                    for data in topic.partitions
                ]
                topics.append(answer.TopicData(topic_id=topic.topic_id, partitions=partitions))
            directories.append(answer.DirectoryData(id=directory.id, topics=topics))
        return answer.AssignReplicasToDirsResponse(directories=directories)

    def write(self, *values: bytes, topic: str = "t") -> None:
        now = self.made.world.clock.wall_ms()
        for value in values:
            self.made.partition(topic).append(memoryview(batch(value, timestamp_ms=now)), 1, now, 0)

    def content(self) -> bytes:
        log = self.made.partition("t").log
        return log.read(log.log_start_offset, 1 << 30).read()

    @property
    def at(self) -> str:
        return self.made.partition("t").log.directory

    async def move(self, path: str = SECOND, topic: str = "t") -> int:
        wanted = [AlterReplicaLogDirTopic(name=topic, partitions=[0])]
        response = await self.made.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=wanted)]))
        return int(response.results[0].partitions[0].error_code)

    async def copied(self, universe: Universe, *values: bytes) -> None:
        """Topic t with these records, of which a copy has everything and waits to take the original's place: the
        controller is silent."""
        self.made.topic("t")
        self.write(*values)
        await self.follow(universe)

    async def follow(self, universe: Universe) -> LogDirMove:
        """As `copied`, of topic t as it is."""
        await universe.sleep(0.1)
        self.silent = True
        await self.move()
        await universe.sleep(0.5)
        move = self.made.replicas.directories.mover.move_of("t", 0)
        assert move is not None
        assert move.lag == 0
        return move

    async def described(self) -> list[tuple[str, bool, int]]:
        """(directory, whether it is a copy, lag) of each replica."""
        response = await self.made.ask(DescribeLogDirsRequest(topics=None))
        found = [
            (each.log_dir, part) for each in response.results for topic in each.topics for part in topic.partitions
        ]
        return [(path, part.is_future_key, part.offset_lag) for path, part in found]


@asynccontextmanager
async def mover(universe: Universe, *sets: str) -> AsyncIterator[Mover]:
    async with broker(universe, directories=(FIRST, SECOND), sets=sets) as made, trio.open_nursery() as nursery:
        nursery.start_soon(made.replicas.directories.assignments.run, made.controller, lambda: 7)
        nursery.start_soon(made.replicas.directories.mover.run)
        yield Mover(made)
        nursery.cancel_scope.cancel()
