"""How files are divided into micro-batches: never above the bounds of bytes and of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.spark.jobs.batches import (
    BY_BYTES,
    BY_FILES,
    FileSize,
    Limit,
    counts,
    limit_of,
    needed_ms,
    sizes_of,
    transaction_ms,
)
from kraft.spark.jobs.running import JobFailed

MB = 1 << 20


def test_batches_of_large_files_are_limited_by_bytes_alone() -> None:
    assert limit_of([10 * MB] * 50, 64 * MB, 100, is_endless=False) == Limit(BY_BYTES, 64 * MB)
    assert list(counts([10 * MB] * 50, Limit(BY_BYTES, 64 * MB))) == [6] * 8 + [2]


def test_a_few_small_files_beside_large_ones_are_not_split_into_one_batch_each() -> None:
    sizes = [1] * 101 + [MB] * 1000
    limit = limit_of(sizes, 64 * MB, 100, is_endless=False)
    assert limit == Limit(BY_FILES, 64)
    assert limit_of(sizes, 64 * MB, 100, is_endless=True).option == BY_BYTES


def test_small_files_beside_a_huge_one_still_share_batches() -> None:
    sizes = [1024] * 1000 + [1024 * MB]
    limit = limit_of(sizes, 64 * MB, 100, is_endless=False)
    assert sum(1 for _ in counts(sizes, limit)) <= 12


def test_an_empty_directory_gets_a_limit_by_bytes() -> None:
    assert limit_of([], 64 * MB, 100, is_endless=False) == Limit(BY_BYTES, 64 * MB)


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 120), st.integers(1, 10), st.booleans(), st.randoms())
def test_no_batch_exceeds_the_file_or_byte_limit(
    sizes: list[int], bytes_max: int, files_max: int, is_endless: bool, chance: object
) -> None:
    limit = limit_of(sizes, bytes_max, files_max, is_endless=is_endless)
    begin = 0
    for count in counts(sizes, limit):
        batch = sizes[begin : begin + count]
        begin += count
        assert count == 1 or sum(batch) <= bytes_max
        assert sum(1 for size in batch if size) <= files_max
    assert begin == len(sizes)


def file_of(size: int, name: str = "a.json") -> FileSize:
    return FileSize(Path(name), size, 0)


def test_the_transaction_timeout_grows_only_for_larger_files() -> None:
    assert needed_ms([file_of(10 * MB)], 64 * MB) == 300_000
    assert needed_ms([file_of(2_000_000_000)], 64 * MB) == 500_000
    assert needed_ms([file_of(250_000_000, "a.json.gz")], 64 * MB) == 500_000
    assert transaction_ms([file_of(2_000_000_000)], 64 * MB, 900_000) == 500_000
    assert transaction_ms([file_of(8_000_000_000)], 64 * MB, 900_000) == 900_000


def test_a_file_that_exceeds_the_brokers_transaction_timeout_is_refused_by_name() -> None:
    with pytest.raises(JobFailed, match=r"huge\.json has 20,000,000,000 bytes.*1,250 s; the brokers allow 900 s"):
        transaction_ms([file_of(1), file_of(20_000_000_000, "huge.json")], 64 * MB, 900_000)


def test_files_are_taken_in_time_order_and_deleted_files_skipped(tmp_path: Path) -> None:
    for number, name in enumerate(("new", "old")):
        (tmp_path / name).write_text("x" * (number + 1))
        os.utime(tmp_path / name, (1000 - number, 1000 - number))
    found = sizes_of([tmp_path / "new", tmp_path / "old", tmp_path / "gone"])
    assert [(each.path.name, each.size) for each in found] == [("old", 2), ("new", 1)]
