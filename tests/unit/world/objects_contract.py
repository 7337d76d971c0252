"""What every world's object store owes its users."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from kraft.world.ports import FilePart, ObjectDigest, ObjectMissing, ObjectStore, World
from tests.unit.world.harness import Harness

LARGE = bytes(range(256)) * 80_000  # Twenty megabytes: sent in parts.


class ObjectsContract:
    def test_a_stored_object_is_read_back_whole_and_in_ranges(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            store = open_store(harness, world)
            for content in (b"", b"x", b"hello world", LARGE):
                digest = ObjectDigest(len(content), crc32c(content))
                assert await store.put("a/b", content) == digest
                assert await store.digest("a/b") == digest
                assert await store.get_range("a/b", 0, len(content) + 1) == content
            assert await store.get_range("a/b", 300, 5) == LARGE[300:305]
            assert await store.get_range("a/b", len(LARGE) - 2, 5) == LARGE[-2:]
            assert await store.get_range("a/b", len(LARGE), 5) == b""
            assert await store.get_range("a/b", len(LARGE) + 7, 5) == b""
            assert await store.get_range("a/b", 7, 0) == b""

        harness.run(body)

    @pytest.mark.parametrize("size", [0, 5, len(LARGE) - 3])
    def test_the_first_bytes_of_a_file_are_stored(self, harness: Harness, size: int) -> None:
        async def body(world: World) -> None:
            path = f"{harness.root}/source"
            write(world, path, LARGE)
            store = open_store(harness, world)
            assert await store.put("part", FilePart(path, size)) == ObjectDigest(size, crc32c(LARGE[:size]))
            assert await store.digest("part") == ObjectDigest(size, crc32c(LARGE[:size]))

        harness.run(body)

    def test_a_missing_or_too_short_file_is_not_stored(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            path = f"{harness.root}/source"
            store = open_store(harness, world)
            with pytest.raises(FileNotFoundError):
                await store.put("gone", FilePart(path, 1))
            write(world, path, LARGE)
            for size in (len(LARGE) + 1, 2 * len(LARGE)):
                with pytest.raises(OSError, match="shorter"):
                    await store.put("gone", FilePart(path, size))
            write(world, path + "2", b"small")
            with pytest.raises(OSError, match="shorter"):
                await store.put("gone", FilePart(path + "2", 6))
            with pytest.raises(ObjectMissing):
                await store.digest("gone")

        harness.run(body)

    def test_a_missing_object_is_reported_as_missing(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            store = open_store(harness, world)
            with pytest.raises(ObjectMissing):
                await store.digest("none")
            with pytest.raises(ObjectMissing):
                await store.get_range("none", 0, 1)
            await store.delete("none")
            assert await store.list_names("folder", "", 10) == []

        harness.run(body)

    def test_object_names_are_listed_in_order_and_in_pages(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            store = open_store(harness, world)
            names = [f"t-1/{partition}/{number:03}.log" for partition in (0, 1) for number in range(7)]
            for name in [*reversed(names), "t-1/10/000.log", "t-10/0/000.log"]:
                await store.put(name, b"x")
            assert await store.list_names("t-1/1", "", 100) == names[7:]
            assert await store.list_names("t-1/0", "", 3) == names[:3]
            assert await store.list_names("t-1/0", names[2], 3) == names[3:6]
            await store.delete(names[4])
            assert await store.list_names("t-1/0", names[2], 3) == [names[3], names[5], names[6]]
            assert await store.list_names("t-1/0", names[6], 3) == []

        harness.run(body)

    def test_a_store_is_opened_by_its_uri(self, harness: Harness) -> None:
        async def body(world: World) -> None:
            await open_store(harness, world, "/one").put("a", b"1")
            await open_store(harness, world, "/two").put("a", b"2")
            assert await open_store(harness, world, "/one").get_range("a", 0, 9) == b"1"
            with pytest.raises(ValueError, match="no place for objects"):
                world.objects.open("nowhere", timeout_seconds=1.0)

        harness.run(body)


def open_store(harness: Harness, world: World, folder: str = "") -> ObjectStore:
    return world.objects.open(f"file://{harness.root}/objects{folder}", timeout_seconds=30.0)


def write(world: World, path: str, content: bytes) -> None:
    file = world.files.open(path, create=True)
    file.append((content,))
    file.close()
