"""What every world owes its nodes of files."""

from __future__ import annotations

import errno

import pytest

from kraft.world.ports import File
from tests.unit.world.harness import Harness


def fill(file: File, data: bytes) -> File:
    file.append([data])
    return file


class FilesContract:
    def test_appends_return_their_position_and_reads_return_the_bytes(self, harness: Harness) -> None:
        files = harness.files()
        file = files.open(f"{harness.root}/a", create=True)
        assert file.append([b"one", bytearray(b"two"), memoryview(b"three")]) == 0
        assert file.append([b"four"]) == 11
        assert file.size() == 15
        assert file.pread(100, 0) == b"onetwothreefour"
        assert file.pread(5, 6) == b"three"
        assert file.pread(5, 15) == b""
        assert file.pread(5, 99) == b""
        assert file.path == f"{harness.root}/a"
        file.close()

    @pytest.mark.parametrize(("count", "offset"), [(-1, 0), (-100_000, 0), (1, -1)])
    def test_a_read_of_an_invalid_range_is_refused(self, harness: Harness, count: int, offset: int) -> None:
        file = fill(harness.files().open(f"{harness.root}/a", create=True), b"bytes")
        with pytest.raises(OSError) as refused:
            file.pread(count, offset)
        assert refused.value.errno == errno.EINVAL
        assert file.pread(0, 0) == b""
        file.close()

    def test_more_buffers_than_one_system_call_accepts_are_appended_completely(self, harness: Harness) -> None:
        file = harness.files().open(f"{harness.root}/a", create=True)
        assert file.append([bytes([n % 251]) for n in range(5000)]) == 0
        assert file.pread(6000, 0) == bytes(n % 251 for n in range(5000))
        assert file.append([b"next"]) == 5000
        file.close()

    def test_truncation_moves_the_position_of_the_next_append(self, harness: Harness) -> None:
        file = fill(harness.files().open(f"{harness.root}/a", create=True), b"0123456789")
        file.truncate(4)
        assert file.size() == 4
        assert file.append([b"x"]) == 4
        assert file.pread(10, 0) == b"0123x"
        file.truncate(8)
        assert file.pread(10, 0) == b"0123x\0\0\0"
        file.close()

    def test_writing_at_a_position_overwrites_and_extends(self, harness: Harness) -> None:
        file = fill(harness.files().open(f"{harness.root}/a", create=True), b"0123456789")
        file.pwrite(b"ab", 3)
        assert file.pread(20, 0) == b"012ab56789"
        file.pwrite(b"zz", 12)
        assert file.pread(20, 0) == b"012ab56789\0\0zz"
        assert file.append([b"!"]) == 14
        file.close()

    def test_a_second_handle_sees_written_bytes(self, harness: Harness) -> None:
        files = harness.files()
        writer = files.open(f"{harness.root}/a", create=True)
        reader = files.open(f"{harness.root}/a", writable=False)
        writer.append([b"seen"])
        assert reader.size() == 4
        assert reader.pread(4, 0) == b"seen"
        with pytest.raises(OSError):
            reader.append([b"no"])
        writer.close()
        reader.close()
        reader.close()

    def test_a_closed_file_refuses_every_operation(self, harness: Harness) -> None:
        file = fill(harness.files().open(f"{harness.root}/a", create=True), b"x")
        file.close()
        for call in (
            lambda: file.pread(1, 0),
            lambda: file.append([b"y"]),
            file.sync,
            lambda: file.truncate(0),
            lambda: file.pwrite(b"y", 0),
        ):
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno == errno.EBADF

    def test_opening_a_file_respects_its_flags(self, harness: Harness) -> None:
        files = harness.files()
        path = f"{harness.root}/a"
        with pytest.raises(FileNotFoundError):
            files.open(path)
        fill(files.open(path, exclusive=True), b"first").close()
        with pytest.raises(FileExistsError):
            files.open(path, exclusive=True)
        reopened = files.open(path)
        assert reopened.append([b"+"]) == 5
        reopened.close()
        emptied = files.open(path, truncate=True)
        assert emptied.size() == 0
        emptied.close()
        with pytest.raises(FileNotFoundError):
            files.open(f"{harness.root}/none/a", create=True)
        with pytest.raises(IsADirectoryError):
            files.open(harness.root)

    def test_a_read_of_just_written_bytes_would_not_block(self, harness: Harness) -> None:
        file = fill(harness.files().open(f"{harness.root}/a", create=True), bytes(300_000))
        assert file.resident(0, 300_000)
        assert file.resident(0, 0)
        read = file.read_resident(299_000, 1_000)
        assert read is not None
        assert bytes(read) == bytes(299_000)
        with pytest.raises(OSError) as caught:
            file.read_resident(299_001, 1_000)
        assert caught.value.errno == errno.EIO
        file.close()

    def test_syncing_files_and_directories_succeeds(self, harness: Harness) -> None:
        files = harness.files()
        file = fill(files.open(f"{harness.root}/a", create=True), b"x")
        file.sync()
        files.sync_directory(harness.root)
        with pytest.raises(FileNotFoundError):
            files.sync_directory(f"{harness.root}/none")
        with pytest.raises(NotADirectoryError):
            files.sync_directory(f"{harness.root}/a")
        file.close()

    def test_directories_are_created_listed_in_order_and_removed(self, harness: Harness) -> None:
        files = harness.files()
        files.make_directories(f"{harness.root}/x/y/z")
        files.make_directories(f"{harness.root}/x/y/z")
        for name in ("b", "a", "c"):
            files.open(f"{harness.root}/x/{name}", create=True).close()
        assert files.list_directory(f"{harness.root}/x") == ["a", "b", "c", "y"]
        assert files.exists(f"{harness.root}/x/y/z")
        assert files.status(f"{harness.root}/x/y").is_directory
        files.remove_tree(f"{harness.root}/x/y")
        assert files.list_directory(f"{harness.root}/x") == ["a", "b", "c"]
        files.remove(f"{harness.root}/x/a")
        assert not files.exists(f"{harness.root}/x/a")
        for call in (
            lambda: files.remove(f"{harness.root}/x/a"),
            lambda: files.list_directory(f"{harness.root}/none"),
            lambda: files.status(f"{harness.root}/none"),
            lambda: files.remove_tree(f"{harness.root}/none"),
        ):
            with pytest.raises(FileNotFoundError):
                call()
        with pytest.raises(NotADirectoryError):
            files.list_directory(f"{harness.root}/x/b")
        with pytest.raises((FileExistsError, NotADirectoryError)):
            files.make_directories(f"{harness.root}/x/b")

    def test_renaming_replaces_files(self, harness: Harness) -> None:
        files = harness.files()
        fill(files.open(f"{harness.root}/new", create=True), b"new").close()
        old = fill(files.open(f"{harness.root}/old", create=True), b"old")
        files.rename(f"{harness.root}/new", f"{harness.root}/old")
        assert files.list_directory(harness.root) == ["old"]
        assert old.pread(3, 0) == b"old"
        found = files.open(f"{harness.root}/old")
        assert found.pread(3, 0) == b"new"
        found.close()
        old.close()
        with pytest.raises(FileNotFoundError):
            files.rename(f"{harness.root}/none", f"{harness.root}/old")

    def test_renaming_moves_directories_with_their_content_and_open_files(self, harness: Harness) -> None:
        files = harness.files()
        files.make_directories(f"{harness.root}/from/inner")
        file = fill(files.open(f"{harness.root}/from/inner/f", create=True), b"x")
        files.rename(f"{harness.root}/from", f"{harness.root}/to")
        file.append([b"y"])
        assert files.status(f"{harness.root}/to/inner/f").size == 2
        assert not files.exists(f"{harness.root}/from")
        files.make_directories(f"{harness.root}/empty")
        files.rename(f"{harness.root}/to", f"{harness.root}/empty")
        files.make_directories(f"{harness.root}/another")
        with pytest.raises(OSError) as caught:
            files.rename(f"{harness.root}/another", f"{harness.root}/empty")
        assert caught.value.errno == errno.ENOTEMPTY
        file.close()

    def test_a_removed_file_stays_readable_through_open_handles(self, harness: Harness) -> None:
        files = harness.files()
        file = fill(files.open(f"{harness.root}/a", create=True), b"x")
        files.remove(f"{harness.root}/a")
        assert file.pread(1, 0) == b"x"
        file.close()

    def test_status_reports_size_kind_and_modification_time(self, harness: Harness) -> None:
        files = harness.files()
        fill(files.open(f"{harness.root}/a", create=True), b"12345").close()
        files.set_modified_ms(f"{harness.root}/a", 1_234_567_890_123)
        status = files.status(f"{harness.root}/a")
        assert (status.size, status.modified_ms, status.is_directory) == (5, 1_234_567_890_123, False)

    def test_a_read_only_file_can_be_read_renamed_and_removed(self, harness: Harness) -> None:
        files = harness.files()
        fill(files.open(f"{harness.root}/a", create=True), b"12345").close()
        files.set_read_only(f"{harness.root}/a")
        files.rename(f"{harness.root}/a", f"{harness.root}/b")
        file = files.open(f"{harness.root}/b", writable=False)
        assert file.pread(5, 0) == b"12345"
        file.close()
        files.remove(f"{harness.root}/b")
        with pytest.raises(FileNotFoundError):
            files.set_read_only(f"{harness.root}/b")

    def test_a_file_made_private_stays_usable(self, harness: Harness) -> None:
        files = harness.files()
        fill(files.open(f"{harness.root}/a", create=True), b"12345").close()
        files.set_private(f"{harness.root}/a")
        files.set_private(harness.root)
        file = files.open(f"{harness.root}/a", writable=False)
        assert file.pread(5, 0) == b"12345"
        file.close()
        with pytest.raises(FileNotFoundError):
            files.set_private(f"{harness.root}/b")

    def test_a_lock_has_one_holder_at_a_time(self, harness: Harness) -> None:
        files = harness.files()
        with files.lock(f"{harness.root}/.lock"):
            assert files.exists(f"{harness.root}/.lock")
            with pytest.raises(BlockingIOError), files.lock(f"{harness.root}/.lock"):
                pass
        with files.lock(f"{harness.root}/.lock"):
            pass

    def test_free_and_total_space_are_plausible(self, harness: Harness) -> None:
        files = harness.files()
        assert 0 < files.free_bytes(harness.root) <= files.total_bytes(harness.root)

    def test_a_reserved_file_takes_its_requested_size(self, harness: Harness) -> None:
        files = harness.files()
        path = f"{harness.root}/reserve"
        for size in (1 << 20, 3 << 20, 1 << 16, 0, 1 << 16):
            files.reserve(path, size)
            assert files.status(path).size == size
        files.remove(path)
        with pytest.raises(FileNotFoundError):
            files.reserve(f"{harness.root}/nowhere/reserve", 1)
