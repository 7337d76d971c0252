"""The Python stacks and native stacks of a process that hangs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

NATIVE_SECONDS_MAX: Final = 20.0
"""Timeout of gdb."""
DUMP_SECONDS_MAX: Final = 2.0
QUIET_SECONDS: Final = 0.1


def dump_stacks(pid: int, number: signal.Signals, path: Path) -> str:
    """Return the native stacks of a process. Its Python stacks are written to `path`, by the handler that it has
    registered with `faulthandler.register(number)`."""
    size = path.stat().st_size
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return "the process has ended\n"
    _until_written(path, size)
    return native_stacks(pid)


def _until_written(path: Path, size: int) -> None:
    """Wait until a file is larger than `size` and no longer grows. The signal handler does not report when it has
    finished."""
    deadline = time.monotonic() + DUMP_SECONDS_MAX
    seen = size
    while time.monotonic() < deadline:
        time.sleep(QUIET_SECONDS)
        now = path.stat().st_size
        if now == seen != size:
            return
        seen = now


def native_stacks(pid: int) -> str:
    """The C stacks of every thread from gdb, or the kernel's information about them if gdb is not installed."""
    if shutil.which("gdb"):
        command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 20"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=NATIVE_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            return "gdb did not end in time\n"
        return done.stdout
    threads = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        try:
            name, waits = (task / "comm").read_text().strip(), (task / "wchan").read_text().strip()
        except OSError:
            continue  # The thread ended meanwhile.
        threads.append(f"thread {task.name} {name}: in {waits or 'user space'}")
    return "\n".join(threads) + "\n"
