"""`make flakes ROUNDS=n [FILES=...]`: which test files turn red beside others' work, and how long they take.

Each file runs by itself, `ROUNDS` times, while busy processes take the cores. The output of a red round is kept, and
the table at the end has a line for each file: rounds, how many were red, the longest. Exit code 0 when none was red.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("integration", "docs", "simulation", "properties")
BUSY_PROCESSES = 2
BUSY = "while True: pass"
ROUND_SECONDS_MAX = 2400
NO_TESTS = 5
"""The exit code of pytest where every test of a file is left to `make soak`."""


@dataclass
class Tally:
    """What came of a file's rounds."""

    file: str
    seconds: list[float] = field(default_factory=list)
    red: list[Path] = field(default_factory=list)
    """What the red rounds printed."""


def files_of(given: Sequence[str]) -> list[str]:
    """The files that are asked about, from the root; folders stand for all in them."""
    places = [ROOT / each for each in given] or [ROOT / "tests" / folder for folder in FOLDERS]
    missing = [str(place) for place in places if not place.exists()]
    if missing:
        raise FileNotFoundError(f"there is no {', '.join(missing)}")
    found = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("test_*.py")))]
    return [str(file.relative_to(ROOT)) for file in found]


def command(file: str) -> list[str]:
    """One worker, so that `tests/guard.py` watches it."""
    guarded = ["-p", "tests.guard", "--numprocesses=1", "--dist=loadfile"]
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *guarded, file]


@contextmanager
def load(count: int) -> Iterator[None]:
    """So many processes that do nothing but take time of the cores."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run_round(tally: Tally, number: int, folder: Path) -> None:
    log = folder / f"{tally.file.replace('/', '-')}-{number}.txt"
    begun = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(command(tally.file), cwd=ROOT, stdout=output, stderr=output)
        try:
            code = process.wait(ROUND_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    tally.seconds.append(time.monotonic() - begun)
    if code in (0, NO_TESTS):
        log.unlink()
    else:
        tally.red.append(log)


def table(tallies: Sequence[Tally]) -> str:
    """A line for each file, the worst first."""
    ordered = sorted(tallies, key=lambda each: (-len(each.red), -max(each.seconds)))
    width = max(len(each.file) for each in ordered)
    lines = [f"{'file':{width}}  rounds  red  longest"]
    for each in ordered:
        lines.append(f"{each.file:{width}}  {len(each.seconds):6}  {len(each.red):3}  {max(each.seconds):5.0f} s")
        lines += [f"  {log}" for log in each.red]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.flakes", description="Run test files beside a load.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each file runs (%(default)s)")
    parser.add_argument("--busy", type=int, default=BUSY_PROCESSES, help="busy processes beside it (%(default)s)")
    parser.add_argument("files", nargs="*", help=f"files or folders; all of {', '.join(FOLDERS)} if none is given")
    options = parser.parse_args(arguments)
    tallies = [Tally(file) for file in files_of(options.files)]
    folder = Path(tempfile.mkdtemp(prefix="kraft-flakes-"))
    with load(options.busy):
        for number in range(options.rounds):
            for tally in tallies:
                run_round(tally, number + 1, folder)
                print(f"round {number + 1}: {tally.file}: {tally.seconds[-1]:.0f} s, {len(tally.red)} red", flush=True)
    print(table(tallies))
    return 1 if any(tally.red for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
