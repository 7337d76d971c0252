"""Directories that take the place of others, cut off at every step: a reader never sees a record twice, and the next
run has all of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kraft.spark.jobs import pending_renames
from kraft.spark.jobs.pending_renames import MERGED, carry_out, is_pending, note
from kraft.spark.jobs.running import JobFailed

NAMES = ("batch=00000003", "batch=00000004", "batch=00000005")


class CutOff(Exception):
    pass


def archive(place: Path) -> Path:
    """Three micro-batches and a newer one, and what three of them become. Answers the latter."""
    for number, name in enumerate((*NAMES, "batch=00000006")):
        (place / name).mkdir(parents=True)
        (place / name / "records").write_text(f"{number}\n")
    merged = place / f"{MERGED}{NAMES[0]}"
    merged.mkdir()
    (merged / "records").write_text("0\n1\n2\n")
    return merged


def seen(place: Path) -> list[int]:
    """What a reader finds."""
    return sorted(int(line) for path in place.glob("batch=*/records") for line in path.read_text().splitlines())


def cut_off(monkeypatch: pytest.MonkeyPatch, calls_left: int) -> None:
    """Whatever changes a directory, for the last time after so many calls."""
    left = iter(range(calls_left))

    def cutting(inner: Callable[..., Any]) -> Callable[..., Any]:
        def deed(*arguments: Any, **named: Any) -> Any:
            if next(left, None) is None:
                raise CutOff
            return inner(*arguments, **named)

        return deed

    monkeypatch.setattr(Path, "rename", cutting(Path.rename))
    monkeypatch.setattr(Path, "unlink", cutting(Path.unlink))
    monkeypatch.setattr(shutil, "rmtree", cutting(shutil.rmtree))


def test_after_an_interruption_at_any_step_the_next_run_renames_every_file_once(tmp_path: Path) -> None:
    for calls in range(20):
        place = tmp_path / str(calls)
        merged = archive(place)
        with pytest.MonkeyPatch.context() as patch:
            cut_off(patch, calls)
            try:
                note(place, merged, [place / name for name in NAMES])
                carry_out(place)
                is_whole = True
            except CutOff:
                is_whole = False
        assert len(set(seen(place))) == len(seen(place)), calls
        carry_out(place)
        assert seen(place) == [0, 1, 2, 3], calls
        assert not is_pending(place)
        left = [path.name for path in place.iterdir()]
        assert len(left) == (4 if calls == 0 else 2), (calls, left)
        if is_whole:
            return
    raise AssertionError("it never came to its end")


def test_files_written_without_a_rename_note_are_removed(tmp_path: Path) -> None:
    archive(tmp_path)
    carry_out(tmp_path)
    assert seen(tmp_path) == [0, 1, 2, 3]
    assert len(list(tmp_path.iterdir())) == 4


def test_a_malformed_rename_note_is_refused(tmp_path: Path) -> None:
    archive(tmp_path)
    for text in ("{", "{}", "[]"):
        (tmp_path / pending_renames.JOURNAL).write_text(text)
        with pytest.raises(JobFailed, match="damaged"):
            carry_out(tmp_path)
    assert seen(tmp_path) == [0, 1, 2, 3]
