"""The files that a checkpoint of an ingest has taken, from the logs that Spark writes there: local checkpoints only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kraft.spark.jobs.batches import FileSize

SOURCE = Path("sources/0")
OFFSET = "logOffset"


class TakenFiles:
    """The files of the micro-batches of one checkpoint. `directory` need not exist."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def last(self) -> int:
        """Return the number, in the log of files, of the last micro-batch that is done; -1 if none is."""
        done = numbers(self.directory / "commits")
        if not done:
            return -1
        return offset_in((self.directory / "offsets" / str(max(done))).read_text(encoding="utf-8"))

    def paths(self) -> set[Path]:
        """Return the files of micro-batches that are done."""
        last = self.last()
        return {path for path, number in self.entries() if number <= last}

    def entries(self) -> Iterator[tuple[Path, int]]:
        """Yield each file that is planned, with the number of its micro-batch in the log of files."""
        place = self.directory / SOURCE
        for log in sorted(place.iterdir()) if place.is_dir() else ():
            if not log.name.startswith(".") and log.stem.isdigit():
                for line in log.read_text(encoding="utf-8").splitlines()[1:]:
                    entry = json.loads(line)
                    yield Path(unquote(urlsplit(entry["path"]).path)), int(entry["batchId"])

    def left(self, present: Sequence[FileSize]) -> list[FileSize]:
        """Return those of the files that are not taken yet."""
        taken = self.paths()
        return [each for each in present if each.path not in taken]


def numbers(directory: Path) -> list[int]:
    return [int(each.name) for each in directory.iterdir() if each.name.isdigit()] if directory.is_dir() else []


def offset_in(planned: str) -> int:
    """Return the number in the log of files up to which Spark's plan of a micro-batch goes."""
    for line in planned.splitlines()[1:]:
        if line.startswith("{") and OFFSET in (found := json.loads(line)):
            return int(found[OFFSET])
    return -1
