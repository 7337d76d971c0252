"""A partition in the remote tier, in a simulated world: a store, a topic of metadata, and brokers that die.

After every record that gets into the topic and every object that is deleted, a fresh reader of the topic looks at the
store: what is told as finished must lie there whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.common.ids import Uuid
from kraft.remote.metadata_cache import RemoteLogMetadataCache
from kraft.remote.metadata_serde import RemoteLogMetadataRecord, decode_metadata, encode_metadata
from kraft.remote.object_names import LEADER_EPOCHS_SUFFIX, object_name
from kraft.remote.segment_copies import Contents, CopyFailed, MetadataNotWritten, RemotePartition
from kraft.remote.segment_metadata import RemoteLogSegmentMetadata
from kraft.world.ports import FilePart, ObjectError
from kraft.world.simulated import SimulatedWorld, Universe
from tests.unit.remote.support import PARTITION, STARTED, segment

URI = "s3://bucket/kraft"
TIMEOUT_SECONDS = 5.0
SEGMENTS = 2
FILES = {".log": b"records " * 50, ".index": b"", ".timeindex": b"times", ".snapshot": b"producers"}
EPOCHS = b"0\n1\n0 0\n"


class Topic:
    """The records of the partition in `__remote_log_metadata`. It outlives its readers."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.records: list[bytes] = []
        self.unknown_rate = 0.0
        """How often a writer hears nothing of its record, which gets in, or does much later, or never."""
        self.chance = universe.stream("topic")
        self.server = universe.object_servers.at(URI)
        self.deletes_seen = 0
        self.check_whole: Callable[[Topic, RemoteLogSegmentMetadata], None] = check_files

    def reader(self) -> RemoteLogMetadataCache:
        cache = RemoteLogMetadataCache()
        for record in self.records:
            cache.replay(decode_metadata(record))
        return cache

    def take(self, record: bytes) -> None:
        self.records.append(record)
        self.check()

    def check(self) -> None:
        for finished in self.reader().segments():
            if finished.is_finished:
                self.check_whole(self, finished)


def check_files(topic: Topic, finished: RemoteLogSegmentMetadata) -> None:
    for suffix, content in {**FILES, LEADER_EPOCHS_SUFFIX: EPOCHS}.items():
        assert topic.server.objects.get(object_name(finished, suffix)) == content, suffix


class Log:
    """Implements `MetadataLog` for one life of a broker."""

    def __init__(self, topic: Topic, world: SimulatedWorld, cache: RemoteLogMetadataCache) -> None:
        self.topic = topic
        self.world = world
        self.cache = cache
        self.replayed = 0

    async def append(self, record: RemoteLogMetadataRecord) -> None:
        self.world.node.enter("metadata append")
        value = encode_metadata(record)
        topic = self.topic
        if topic.chance.random() < topic.unknown_rate:
            fate = topic.chance.choice(("in", "late", "never"))
            if fate != "never":
                topic.universe.time.call_after(20.0 if fate == "late" else 0.01, lambda: topic.take(value))
            await self.world.clock.sleep(1.0)
            raise MetadataNotWritten(fate)
        await self.world.clock.sleep(0.01)
        topic.take(value)
        self.world.node.enter("metadata appended")
        await self.catch_up()

    async def catch_up(self) -> None:
        await self.world.clock.sleep(0.01)
        for record in self.topic.records[self.replayed :]:
            self.cache.replay(decode_metadata(record))
        self.replayed = len(self.topic.records)


class Broker:
    """One life of one broker. `leads` may be set."""

    def __init__(self, topic: Topic, world: SimulatedWorld) -> None:
        self.world = world
        self.leads = True
        self.cache = RemoteLogMetadataCache()
        self.log = Log(topic, world, self.cache)
        self.store = world.objects.open(URI, timeout_seconds=TIMEOUT_SECONDS)
        self.remote = RemotePartition(
            self.store, self.log, self.cache, world.clock, broker_id=1, leads=lambda: self.leads
        )

    def new_segment(self, number: int) -> RemoteLogSegmentMetadata:
        new = segment(0, number * 10, number * 10 + 9)
        return RemoteLogSegmentMetadata(
            **{name: getattr(new, name) for name in new.__slots__ if name != "segment_id"},
            segment_id=Uuid(self.world.random.uuid("segment")),
        )

    def contents(self) -> Contents:
        parts: dict[str, FilePart | bytes] = {}
        for suffix, content in FILES.items():
            path = f"/segment{suffix}"
            file = self.world.files.open(path, create=True, truncate=True)
            file.append((content,))
            file.close()
            parts[suffix] = FilePart(path, len(content))
        return {**parts, LEADER_EPOCHS_SUFFIX: EPOCHS}

    async def work(self) -> None:
        """One round: delete what nobody finishes, then copy what is not copied."""
        await self.log.catch_up()
        for known in self.cache.segments():
            if known.state == STARTED or not known.is_finished:
                await self.remote.delete(known)
        for number in range(SEGMENTS):
            if self.cache.remote_log_segment_metadata(0, number * 10) is None:
                await self.remote.copy(self.new_segment(number), self.contents())

    async def work_until_done(self, rounds_max: int = 60) -> None:
        """Rounds with rests between them, whatever fails; then what is astray is deleted."""
        for _ in range(rounds_max):
            try:
                await self.work()
                await self.remote.delete_stray_objects(PARTITION)
                return
            except (ObjectError, CopyFailed, MetadataNotWritten):
                await self.world.clock.sleep(1.0)
        raise AssertionError("it does not end")


def run(seed: int, body: Callable[[Universe, Topic], Awaitable[None]]) -> None:
    async def main(universe: Universe) -> None:
        topic = Topic(universe)
        delete = topic.server.delete

        def checked_delete(name: str) -> None:
            delete(name)
            topic.deletes_seen += 1
            topic.check()

        topic.server.delete = checked_delete  # type: ignore[method-assign]
        await body(universe, topic)

    Universe(seed).run(main, seconds_max=100_000)


async def in_a_life(
    universe: Universe, topic: Topic, body: Callable[[Broker], Awaitable[None]], calls: int = -1
) -> bool:
    """False where the broker died before its port call number `calls` (never: -1)."""
    world = universe.world_for(1)
    if calls >= 0:
        universe.kill_after_calls(1, calls)

    async def alive(world: SimulatedWorld) -> None:
        await body(Broker(topic, world))

    return await universe.live(world, alive)


def assert_clean(topic: Topic) -> None:
    """Every segment is copied once, and nothing else lies in the store."""
    cache = topic.reader()
    assert sorted(each.start_offset for each in cache.segments() if each.is_finished) == [
        number * 10 for number in range(SEGMENTS)
    ]
    assert len(cache.segments()) == SEGMENTS
    expected = {object_name(each, suffix) for each in cache.segments() for suffix in (*FILES, LEADER_EPOCHS_SUFFIX)}
    assert topic.server.objects.keys() == expected
