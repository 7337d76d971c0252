"""A slow disk: the kernel limits the bytes per second that a node's process writes to its block device, and its syncs
wait (blkio, cgroup version 1).

A control group is created for the limit, and the process is moved there. `end` moves it back and removes the group.
Control groups are in no namespace. So the watchdog removes the groups that have the scratch directory's name, once no
process is left (`sandbox`).
"""

from __future__ import annotations

import os
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/blkio")


class Refused(Exception):
    """Raised when this kernel has no such control groups, or they may not be changed."""


def group_of(process: int) -> Path:
    """The control group of a process. Raises Refused."""
    for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            return GROUPS / path.lstrip("/")
    raise Refused("the kernel has no blkio control groups of version 1")


class Throttle:
    """A limit for one process on one block device, from creation to `end`. Raises Refused."""

    def __init__(self, name: str, process: int, device: str, bytes_per_second: int) -> None:
        self.process = process
        self.device = device
        self.group = GROUPS / name
        try:
            self._home = group_of(process)
            self.group.mkdir()
        except OSError as problem:
            raise Refused(f"{self.group}: {problem}") from problem
        self._write("blkio.throttle.write_bps_device", f"{device} {bytes_per_second}")
        self._write("cgroup.procs", str(process))

    def _write(self, name: str, text: str) -> None:
        (self.group / name).write_text(text)

    def written_bytes(self) -> int:
        """The number of bytes written under the limit."""
        for line in (self.group / "blkio.throttle.io_service_bytes").read_text().splitlines():
            if line.startswith(f"{self.device} Write "):
                return int(line.split()[2])
        return 0

    def end(self) -> None:
        """End the limit and remove the group."""
        self._write("blkio.throttle.write_bps_device", f"{self.device} 0")
        for process in (self.group / "cgroup.procs").read_text().split():
            (self._home / "cgroup.procs").write_text(process)
        self.group.rmdir()


def remove_groups(prefix: str) -> bool:
    """Remove the groups whose name has the prefix; their processes have ended, or soon will. Returns whether none is
    left."""
    left = list(GROUPS.glob(f"{prefix}*"))
    for group in left:
        try:
            os.rmdir(group)
        except OSError:
            continue
    return not list(GROUPS.glob(f"{prefix}*"))
