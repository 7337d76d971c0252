"""What a broker does when the log of a replica that it is given cannot be made."""

from __future__ import annotations

import errno
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from kraft.common.errors import StorageError
from kraft.replication.replica_manager import ReplicaListener
from kraft.world.simulated import Universe
from kraft.world.simulated.disk import Fault
from tests.unit.server.brokers import Broker, batch, broker, simulate


class FailedDirectories(ReplicaListener):
    """Notes the paths of log directories that failed."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def directory_failed(self, path: str) -> None:
        self._paths.append(path)


def made_once(made: Broker) -> None:
    """There are checkpoints of an earlier topic of the name, which have to forget it before there is another."""
    topic = made.topic("t")
    made.partition("t").append(memoryview(batch(b"v")), 1, made.world.clock.wall_ms(), 0)
    made.delete_topic(topic)


@asynccontextmanager
async def out_of_descriptors(universe: Universe) -> AsyncIterator[Broker]:
    """No checkpoint can be opened from now on, and the broker tries again."""
    async with broker(universe, ["/a"]) as made, trio.open_nursery() as nursery:
        nursery.start_soon(made.replicas.hosting.run)
        made_once(made)
        universe.disk("broker").faults = [Fault("open", errno.EMFILE, "checkpoint", math.inf)]
        yield made
        nursery.cancel_scope.cancel()


def test_a_directory_that_fails_a_log_creation_goes_offline() -> None:
    """It was the replica alone that was given up, until the next start, on a node that went on with a disk of which
    syncs fail."""

    async def play(universe: Universe) -> None:
        async with broker(universe, ["/a"]) as made:
            made_once(made)
            universe.disk("broker").faults = [Fault("sync", errno.EIO, "checkpoint")]
            failed: list[str] = []
            made.replicas.add_listener(FailedDirectories(failed))
            made.topic("t")
            assert failed == ["/a"]
            with pytest.raises(StorageError):
                made.partition("t")

    simulate(play)


def test_a_log_creation_that_lacks_resources_is_retried() -> None:
    async def play(universe: Universe) -> None:
        async with out_of_descriptors(universe) as made:
            made.topic("t")
            assert made.replicas.find("t", 0) is None
            await universe.sleep(5)
            assert made.replicas.find("t", 0) is None
            universe.disk("broker").faults = []
            await universe.sleep(2)
            made.partition("t").append(memoryview(batch(b"v")), 1, made.world.clock.wall_ms(), 0)
            assert len(made.logs.online()) == 1

    simulate(play)


def test_a_failed_log_creation_is_not_retried_once_the_replica_is_unassigned() -> None:
    async def play(universe: Universe) -> None:
        async with out_of_descriptors(universe) as made:
            made.delete_topic(made.topic("t"))
            universe.disk("broker").faults = []
            await universe.sleep(3)
            assert made.replicas.find("t", 0) is None

    simulate(play)
