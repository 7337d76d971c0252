"""Find the files that an ingest has already processed, from the logs that Spark writes to the checkpoint. Only for
local checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kraft.spark.jobs.batches import FileSize

SOURCE = Path("sources/0")
OFFSET = "logOffset"


class ProcessedFiles:
    """The files of the micro-batches of one checkpoint. `directory` need not exist."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def last(self) -> int:
        """Return the number of the last completed micro-batch, as the file source's log counts them; -1 if there is
        none."""
        done = numbers(self.directory / "commits")
        if not done:
            return -1
        return offset_in((self.directory / "offsets" / str(max(done))).read_text(encoding="utf-8"))

    def paths(self) -> set[Path]:
        """Return the files of completed micro-batches."""
        last = self.last()
        return {path for path, number in self.entries() if number <= last}

    def entries(self) -> Iterator[tuple[Path, int]]:
        """Yield each planned file, with the number of its micro-batch in the file source's log."""
        place = self.directory / SOURCE
        for log in sorted(place.iterdir()) if place.is_dir() else ():
            if not log.name.startswith(".") and log.stem.isdigit():
                for line in log.read_text(encoding="utf-8").splitlines()[1:]:
                    entry = json.loads(line)
                    yield Path(unquote(urlsplit(entry["path"]).path)), int(entry["batchId"])

    def left(self, present: Sequence[FileSize]) -> list[FileSize]:
        """Return the files of `present` that are not processed yet."""
        processed = self.paths()
        return [each for each in present if each.path not in processed]


def numbers(directory: Path) -> list[int]:
    return [int(each.name) for each in directory.iterdir() if each.name.isdigit()] if directory.is_dir() else []


def offset_in(planned: str) -> int:
    """Return the last number in the file source's log that a planned micro-batch covers."""
    for line in planned.splitlines()[1:]:
        if line.startswith("{") and OFFSET in (found := json.loads(line)):
            return int(found[OFFSET])
    return -1
