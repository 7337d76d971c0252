"""Which files a checkpoint has processed, from what Spark wrote there."""

from __future__ import annotations

import json
from pathlib import Path

from kraft.spark.jobs.batches import FileSize
from kraft.spark.jobs.processed_files import ProcessedFiles


def log(directory: Path, name: str, *entries: tuple[str, int]) -> None:
    found = [json.dumps({"path": f"file://{path}", "timestamp": 1, "batchId": batch}) for path, batch in entries]
    (directory / "sources/0").mkdir(parents=True, exist_ok=True)
    (directory / "sources/0" / name).write_text("\n".join(["v1", *found]))


def done(directory: Path, batch: int, offset: int) -> None:
    for name in ("offsets", "commits"):
        (directory / name).mkdir(exist_ok=True)
    (directory / f"commits/{batch}").write_text("v1\n{}")
    (directory / f"offsets/{batch}").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{offset}}}')


def test_a_missing_checkpoint_has_no_processed_files(tmp_path: Path) -> None:
    assert ProcessedFiles(tmp_path / "none").paths() == set()


def test_files_of_completed_batches_count_as_processed_and_those_of_a_running_batch_do_not(tmp_path: Path) -> None:
    log(tmp_path, "9.compact", ("/in/a%20b", 0), ("/in/c", 9))
    log(tmp_path, "10", ("/in/d", 10))
    (tmp_path / "sources/0/.10.crc").write_bytes(b"\x00")
    done(tmp_path, 4, 8)
    processed = ProcessedFiles(tmp_path)
    assert processed.paths() == {Path("/in/a b")}
    done(tmp_path, 5, 9)
    assert processed.paths() == {Path("/in/a b"), Path("/in/c")}
    present = [FileSize(Path(f"/in/{name}"), 1, 0) for name in ("a b", "c", "d", "e")]
    assert [each.path.name for each in processed.left(present)] == ["d", "e"]
