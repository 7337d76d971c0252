"""The page that the harness shares with the library in a node: instructions for clocks and syncs, and counters of their
effects."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("preload.c")
PATH_BYTES = 96
ORDERS = struct.Struct(f"<Q3q3q2q{PATH_BYTES}s{PATH_BYTES}s")  # As `struct page` in preload.c begins.
COUNTERS = struct.Struct("<7q")
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The difference between a clock and the true time: `offset_ns`, plus `rate_ppm` millionths of the time since
    `anchor_ns` (of the true monotonic clock)."""

    offset_ns: int = 0
    anchor_ns: int = 0
    rate_ppm: int = 0

    def added(self, now_ns: int) -> int:
        """The ns by which the clock is ahead."""
        return self.offset_ns + (now_ns - self.anchor_ns) * self.rate_ppm // MILLION

    def at_rate(self, rate_ppm: int, now_ns: int) -> Change:
        """Return the change with another rate from now on, without a jump."""
        return Change(offset_ns=self.added(now_ns), anchor_ns=now_ns, rate_ppm=rate_ppm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The effects of the library since the page was made: false times given, with the last skew among them, and
    affected syncs by kind."""

    wall_answers: int
    wall_skew_ns: int
    monotonic_answers: int
    monotonic_skew_ns: int
    syncs_delayed: int
    syncs_failed: int
    syncs_believed: int


def build(directory: Path) -> Path | None:
    """Build the library; None if gcc or the C library's headers are missing. Raises RuntimeError if it does not
    compile."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not Path("/usr/include/dlfcn.h").exists():
        return None
    library = directory / "preload.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{SOURCE} does not compile: {done.stderr}")
    return library


class Page:
    """The page of one node for the whole run. `path` is its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open(path, "w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self._memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._version = 0
        self.wall = self.monotonic = Change()
        self._delay: tuple[int, str] = (0, "")
        self._error: tuple[int, str] = (0, "")
        self._write()

    def environment(self, library: Path) -> Mapping[str, str]:
        """The environment that loads the library into a process."""
        return {"LD_PRELOAD": str(library), "KRAFT_JEPSEN_PAGE": str(self.path)}

    def jump(self, seconds: float) -> None:
        """Move the wall clock to `seconds` ahead of the true time, behind if negative; 0 sets it right."""
        self.wall = Change(offset_ns=int(seconds * 1e9))
        self._write()

    def drift(self, rate_ppm: int) -> None:
        """Run the wall clock `rate_ppm` millionths faster from now on."""
        self.wall = self.wall.at_rate(rate_ppm, time.monotonic_ns())
        self._write()

    def drift_monotonic(self, rate_ppm: int) -> None:
        """Run the monotonic clock `rate_ppm` millionths faster. It is never set back: it keeps what it gained."""
        self.monotonic = self.monotonic.at_rate(rate_ppm, time.monotonic_ns())
        self._write()

    def delay_syncs(self, seconds: float, path: str = "") -> None:
        """Make syncs of files whose path contains `path` take `seconds` longer; 0 ends that."""
        self._delay = (int(seconds * 1e9), path)
        self._write()

    def fail_syncs(self, error: int, path: str = "") -> None:
        """Make the next sync of each file whose path contains `path` fail with an errno; later ones claim to succeed,
        and write nothing. 0 ends that."""
        self._error = (error, path)
        self._write()

    def clear(self) -> None:
        """End all faults: the wall clock is right, the monotonic clock runs at its true rate, and syncs work."""
        self.wall = Change()
        self.monotonic = self.monotonic.at_rate(0, time.monotonic_ns())
        self._delay = self._error = (0, "")
        self._write()

    def counters(self) -> Counters:
        found = COUNTERS.unpack_from(self._memory, ORDERS.size)
        return Counters(**dict(zip(Counters.__slots__, found, strict=True)))

    def _write(self) -> None:
        self._version += 2
        orders = [
            each
            for change in (self.wall, self.monotonic)
            for each in (change.offset_ns, change.anchor_ns, change.rate_ppm)
        ]
        packed = ORDERS.pack(
            self._version,
            *orders,
            self._delay[0],
            self._error[0],
            os.fsencode(self._delay[1]),
            os.fsencode(self._error[1]),
        )
        struct.pack_into("<Q", self._memory, 0, self._version - 1)
        self._memory[8 : ORDERS.size] = packed[8:]
        struct.pack_into("<Q", self._memory, 0, self._version)
