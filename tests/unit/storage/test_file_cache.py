"""Who reads makes no files: what is gone, with its disk perhaps, must not come back as something empty."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from kraft.common.errors import ApiError, StorageError
from kraft.storage.file_cache import FileCache
from kraft.storage.unified_log import UnifiedLog
from kraft.world.simulated.disk import Fault
from tests.unit.storage.support import DIRECTORY, NOW_MS, Machine, batch_of, content, found_by_time

READS: list[Callable[[UnifiedLog], object]] = [
    lambda log: log.read(0, 1000),
    lambda log: found_by_time(log, NOW_MS),
    lambda log: log.active_segment.next_offset(),
    lambda log: log.active_segment.find(0),
]


@pytest.mark.parametrize("read", READS)
def test_a_read_creates_no_file_where_the_disk_is_no_longer_mounted(read: Callable[[UnifiedLog], object]) -> None:
    machine = Machine()
    log = machine.log()
    log.append_as_leader(batch_of(b"v"), 0, now_ms=NOW_MS)
    log.append_as_leader(batch_of(b"w"), 0, now_ms=NOW_MS)  # Where this one is, is known without a read.
    log.local.forget_files()
    machine.files.remove_tree(DIRECTORY)
    machine.files.make_directories(DIRECTORY)
    with pytest.raises((StorageError, OSError)):
        read(log)
    assert machine.files.list_directory(DIRECTORY) == []


def test_an_index_lookup_does_not_create_a_missing_index_file() -> None:
    machine = Machine()
    log = machine.log()
    index = log.active_segment.offset_index
    log.append_as_leader(batch_of(b"v"), 0, now_ms=NOW_MS)
    index.append(0, 0)
    index.append(1, 100)
    index.spill()
    log.local.forget_files()
    machine.files.remove(index.path)
    with pytest.raises(FileNotFoundError):
        index.lookup(0)
    assert not machine.files.exists(index.path)


@pytest.mark.parametrize(
    "then", [lambda log: log.flush(), lambda log: log.truncate_to(0, NOW_MS), lambda log: log.close()]
)
def test_a_log_whose_first_append_lacked_a_descriptor_stays_usable(then: Callable[[UnifiedLog], object]) -> None:
    machine = Machine()
    log = machine.log()
    machine.disk.faults.append(Fault("open", errno.EMFILE, ".log"))
    with pytest.raises(ApiError, match="out of resources"):
        log.append_as_leader(batch_of(b"v"), 0, now_ms=NOW_MS)
    then(log)
    log.append_as_leader(batch_of(b"w"), 0, now_ms=NOW_MS)
    assert content(log) == [(0, None, b"w")]


def test_a_file_created_for_the_writer_is_shared_with_readers() -> None:
    machine = Machine()
    cache = FileCache(machine.files)
    with pytest.raises(FileNotFoundError):
        cache.get("/data/f")
    made = cache.make("/data/f")
    assert cache.get("/data/f") is made
    assert cache.make("/data/f") is made


def test_cached_files_are_dropped_by_directory() -> None:
    machine = Machine()
    cache = FileCache(machine.files, open_files_max=4)
    for directory in ("/data", "/data/a-0", "/data/a-00", "/other"):
        machine.files.make_directories(directory)
    first, inside, beside, other = (cache.make(path) for path in ("/data/f", "/data/a-0/f", "/data/a-00/f", "/other/f"))
    cache.forget_files_in("/data/a-0")
    assert len(cache) == 3
    assert cache.get("/data/a-0/f") is not inside
    cache.make("/other/g")
    assert len(cache) == 4
    assert cache.get("/data/f") is not first, "used longest ago"
    assert cache.get("/data/a-00/f") is not beside
    cache.forget_directory("/data")
    assert cache.get("/other/g") is not None
    cache.forget("/other/g")
    cache.forget("/other/g")
    cache.forget_files_in("/other")
    assert len(cache) == 0
    assert cache.get("/other/f") is not other
