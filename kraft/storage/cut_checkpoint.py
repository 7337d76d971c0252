"""What replicas of one log directory are about to give up, or gave up, after an unclean election, and no controller
has heard of: `untold-cuts-checkpoint`.

Text, as the other checkpoints: version, count, then a line for each cut - topic, partition, topic id, epoch of the
first record, start offset, end offset (exclusive), high watermark, leader epoch, time in ms. Replaced whole, and
durable before the log is cut, so a line says what was there; whether the cut was made, the log tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraft.common.errors import CorruptData
from kraft.common.ids import uuid_from_text, uuid_to_text
from kraft.common.loss_reports import Cut, Loss
from kraft.storage.checkpoints import checkpoint_lines, checkpoint_text, read_text
from kraft.storage.log_directory import CheckpointJob
from kraft.world.ports import FileSystem

UNTOLD_CUTS_CHECKPOINT: Final = "untold-cuts-checkpoint"


class CutCheckpoint:
    """The file of the log directory at `directory`. Made when there is something to write, and left with no lines
    when all is told."""

    __slots__ = ("_files", "_newest", "path")

    def __init__(self, files: FileSystem, directory: str) -> None:
        self.path = f"{directory}/{UNTOLD_CUTS_CHECKPOINT}"
        self._files = files
        self._newest: dict[str, bytes] = {}

    def read(self) -> list[Cut]:
        """What the last run left, oldest first. Raises OSError, CorruptData."""
        text = read_text(self._files, self.path)
        return [_parse(self.path, words) for words in checkpoint_lines(self.path, text or "")]

    def job(self, cuts: Iterable[Cut]) -> CheckpointJob:
        """To write these in place of what is there; a job that is made later wins."""
        content = checkpoint_text(map(_line, cuts)).encode()
        self._newest[self.path] = content
        return CheckpointJob(self._files, [(self.path, content)], self._newest)


def _line(cut: Cut) -> str:
    return " ".join(
        (cut.topic, str(cut.partition), uuid_to_text(cut.topic_id), str(cut.first_epoch), *map(str, cut.loss))
    )


def _parse(path: str, words: list[str]) -> Cut:
    try:
        topic, partition, topic_id, first_epoch, *numbers = words
        return Cut(topic, uuid_from_text(topic_id), int(partition), int(first_epoch), Loss(*map(int, numbers)))
    except (ValueError, TypeError):
        raise CorruptData(f"{path}: malformed line {' '.join(words)!r}") from None
