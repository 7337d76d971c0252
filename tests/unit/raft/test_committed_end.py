"""A metadata log that ends before what its controller has known to be committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.common.errors import CorruptData
from kraft.raft.committed_end import FILE_NAME, CommittedEnd, line_of, parse_line
from kraft.world.real.files import RealFileSystem
from tests.unit.raft.members import alone, leading, run, until

FIRST_SEGMENT = "__cluster_metadata-0/00000000000000000000.log"


def write_records(directory: Path) -> list[int]:
    """Three committed records; the sizes of the log after each batch, LEADER_CHANGE first."""
    sizes = []

    async def body() -> None:
        member = alone(directory)
        async with leading(member):
            sizes.append((directory / FIRST_SEGMENT).stat().st_size)
            for name in ("a", "b", "c"):
                member.driver.append(1, [name])
                await until(lambda name=name: member.listener.records[-1:] == [name])  # type: ignore[misc]
                sizes.append((directory / FIRST_SEGMENT).stat().st_size)

    run(body)
    return sizes


@pytest.mark.parametrize("batches", [0, 1, 2, 3])
@pytest.mark.parametrize("torn", [0, 20])
def test_a_controller_does_not_start_when_its_log_lost_committed_records(
    tmp_path: Path, batches: int, torn: int
) -> None:
    sizes = [0, *write_records(tmp_path)]
    path = tmp_path / FIRST_SEGMENT
    path.write_bytes(path.read_bytes()[: sizes[batches] + torn])
    before = path.read_bytes()
    with pytest.raises(CorruptData, match=r"replace.*controller as one whose disk is lost") as refused:
        alone(tmp_path)
    assert f"up to {'offset ' if torn else ''}4" in str(refused.value)
    assert path.read_bytes() == before, "nothing is cut"


def test_a_controller_does_not_start_without_its_log(tmp_path: Path) -> None:
    write_records(tmp_path)
    (tmp_path / FIRST_SEGMENT).unlink()
    with pytest.raises(CorruptData, match="ends at offset 0"):
        alone(tmp_path)


def test_a_torn_tail_above_the_stored_high_watermark_is_accepted(tmp_path: Path) -> None:
    write_records(tmp_path)
    with (tmp_path / FIRST_SEGMENT).open("ab") as file:
        file.write(bytes(20))
    assert alone(tmp_path).driver._storage.log.end_offset == 4


@pytest.mark.parametrize("content", [b"", b"x", b"9" * 30, line_of(99)[:29], line_of(99).replace(b"0099", b"0098")])
def test_an_unreadable_stored_high_watermark_is_ignored(tmp_path: Path, content: bytes) -> None:
    write_records(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(content)
    assert alone(tmp_path).driver._storage.log.end_offset == 4


def test_the_stored_high_watermark_never_falls_while_a_node_runs(tmp_path: Path) -> None:
    end = CommittedEnd(RealFileSystem(), str(tmp_path))
    assert end.read() == 0
    for offset in (5, 3, 1 << 62):
        end.advance(offset)
        assert end.read() == max(5, offset)
    end.close()
    assert parse_line(line_of(7)) == 7
