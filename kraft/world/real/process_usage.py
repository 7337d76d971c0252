"""The resources that this process uses, from Linux's /proc."""

from __future__ import annotations

import os
import resource
import time
from typing import Final

from kraft.world.ports import ProcessUsage

_STARTED_FIELD: Final = 19
"""The index of the process's start time (ticks since boot) among the fields of /proc/self/stat after the name."""
_RESIDENT_FIELD: Final = 1


def process_usage() -> ProcessUsage | None:
    """Return the resource usage of this process; None on systems without /proc."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            started_ticks = int(file.read().rpartition(")")[2].split()[_STARTED_FIELD])
        with open("/proc/self/statm", encoding="ascii") as file:
            resident_pages = int(file.read().split()[_RESIDENT_FIELD])
        open_files = len(os.listdir("/proc/self/fd"))
    except OSError:
        return None
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    return ProcessUsage(
        cpu_seconds=time.process_time(),
        resident_bytes=resident_pages * resource.getpagesize(),
        open_files=open_files,
        open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        started_at=time.time() - uptime + started_ticks / os.sysconf("SC_CLK_TCK"),
    )
