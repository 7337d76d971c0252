"""What is read from the remote tier is what the log on the disk would have given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kraft.remote.object_names import object_name
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata
from kraft.remote.segment_reader import RemoteDataDamaged, RemoteSegmentReader
from kraft.storage.log_config import LogConfig
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated import SimulatedWorld, Universe
from kraft.world.simulated.objects import ObjectServer
from tests.unit.remote.support import segment
from tests.unit.storage.support import NOW_MS, Machine, batch_of

URI = "s3://bucket"
BATCHES = 60


def written(index_interval_bytes: int) -> UnifiedLog:
    """A closed segment of small batches, some of a few kilobytes and one that is large, and an active one."""
    log = Machine().log(LogConfig(index_interval_bytes=index_interval_bytes))
    for number in range(BATCHES):
        size = 50_000 if number == 30 else number % 7 * 700
        log.append_as_leader(batch_of(*[b"v" * size] * (number % 3 + 1)), 0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    return log


def stored(log: UnifiedLog, server: ObjectServer) -> RemoteLogSegmentMetadata:
    first = log.segments[0]
    new = segment(1, 0, log.log_end_offset - 1, size=first.size)
    for suffix in (".log", ".index"):
        file = log.local.cache.files.open(first.path(suffix), writable=False)
        server.objects[object_name(new, suffix)] = file.pread(file.size(), 0)
        file.close()
    return new


def run(body: Callable[[SimulatedWorld, ObjectServer], Awaitable[None]]) -> None:
    async def main(universe: Universe) -> None:
        server = universe.object_servers.at(URI)
        assert await universe.live(universe.world_for(1), lambda world: body(world, server))

    Universe(1).run(main)


def reader_of(world: SimulatedWorld, index_bytes_max: int = 1 << 20) -> RemoteSegmentReader:
    return RemoteSegmentReader(world.objects.open(URI, timeout_seconds=5.0), index_bytes_max)


@pytest.mark.parametrize("index_interval_bytes", [300, 4096, 1 << 30])
def test_every_offset_is_read_as_from_the_disk(index_interval_bytes: int) -> None:
    async def body(world: SimulatedWorld, server: ObjectServer) -> None:
        log = written(index_interval_bytes)
        new, reader = stored(log, server), reader_of(world)
        for offset in range(log.log_end_offset):
            for max_bytes in (1, 100, 5000, 1 << 20):
                for min_one in (False, True):
                    expected = log.read(offset, max_bytes, min_one_message=min_one).read()
                    found = await reader.read(new, offset, max_bytes, min_one_message=min_one)
                    assert found == expected, (offset, max_bytes, min_one)
        assert await reader.read(new, log.log_end_offset, 100, min_one_message=True) == b""

    run(body)


def test_an_index_is_fetched_once_and_the_oldest_is_evicted() -> None:
    async def body(world: SimulatedWorld, server: ObjectServer) -> None:
        log = written(300)
        new = stored(log, server)
        index = server.objects[object_name(new, ".index")]
        reader = reader_of(world, len(index) * 2)
        others = [segment(number, 0, new.last_offset, size=new.size) for number in (2, 3)]
        for other in others:
            for suffix in (".log", ".index"):
                server.objects[object_name(other, suffix)] = server.objects[object_name(new, suffix)]
        for each in (new, others[0], new, others[1]):
            assert await reader.read(each, 40, 100, min_one_message=True)
        assert reader.index_bytes == 2 * len(index)
        del server.objects[object_name(new, ".index")], server.objects[object_name(others[1], ".index")]
        for each in (new, others[1], others[0]):
            assert await reader.read(each, 40, 100, min_one_message=True)

    run(body)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".index", b"123"),
        (".index", b"\0\0\0\1\x7f\xff\xff\xff"),
        (".index", b"\0\0\0\1\xff\xff\xff\xff"),
        (".log", b""),
        (".log", b"x" * 30),
        (".log", bytes(500)),
        (".log", b"\x7f" * 500),
    ],
)
def test_an_object_that_differs_from_its_copy_is_reported_as_damaged(suffix: str, content: bytes) -> None:
    async def body(world: SimulatedWorld, server: ObjectServer) -> None:
        new = stored(written(300), server)
        server.objects[object_name(new, suffix)] = content
        if suffix == ".log":
            server.objects[object_name(new, ".index")] = b""
        with pytest.raises(RemoteDataDamaged, match=f"{new.start_offset:020}.*{suffix}"):
            await reader_of(world).read(new, 40, 100)

    run(body)


def test_a_truncated_object_is_reported_as_damaged() -> None:
    async def body(world: SimulatedWorld, server: ObjectServer) -> None:
        new = stored(written(300), server)
        name = object_name(new, ".log")
        server.objects[name] = server.objects[name][:-1]
        assert len(await reader_of(world).read(new, 0, new.size - 1)) == new.size - 1
        with pytest.raises(RemoteDataDamaged, match="ends at"):
            await reader_of(world).read(new, 0, new.size)

    run(body)
