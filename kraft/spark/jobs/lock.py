"""Allow one run at a time per checkpoint: two runs would plan the same micro-batches, and replace each other's files.

A run locks a file of its checkpoint (flock). The kernel releases the lock however the run ends, so nothing needs to be
cleaned up. The file's content only identifies the owner. A killed run leaves its JVM behind for a moment, and the JVM
may still write. The next run finds the JVM in that content, and waits until it has ended. A checkpoint in a file system
that is not local cannot be locked.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from kraft.spark.jobs.running import JobFailed, Notice, Say

NAME = "kraft-job.lock"
JAVA_SECONDS_MAX = 60.0
"""How long the JVM of a killed run may take to end."""
POLL_SECONDS = 0.2
PROCESSES = Path("/proc")


@contextmanager
def sole_run(directory: Path, java: int | None, say: Say) -> Iterator[None]:
    """Hold the lock while a run uses the checkpoint in `directory`. `java` is the process id of its JVM, if that is a
    child process. Raises JobFailed if another run holds the lock."""
    with lock_file(directory) as file:
        if locked(file, directory, say):
            wait_for_java(record_of(file), directory, say)
            write(
                file,
                {
                    "host": socket.gethostname(),
                    "pid": os.getpid(),
                    "since": now(),
                    "java": java,
                    "java_began": began(java),
                },
            )
            try:
                yield
            finally:
                write(file, {})
        else:
            yield


def lock_file(directory: Path) -> IO[str]:
    """Open the lock file. It is never removed, because a lock on a removed file excludes no other run."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return (directory / NAME).open("a+", encoding="utf-8")
    except OSError as problem:
        raise JobFailed(f"{directory} cannot be written: {problem}") from problem


def locked(file: IO[str], directory: Path, say: Say) -> bool:
    """Take the lock. Returns False, with a warning, if the file system does not support locks. Raises JobFailed if
    another run holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as problem:
        raise JobFailed(refusal(directory, record_of(file))) from problem
    except OSError as problem:
        say(Notice(f"{directory} cannot be locked ({problem}): make sure that no other run uses it", is_warning=True))
        return False
    return True


def refusal(directory: Path, holder: dict[str, Any]) -> str:
    """Return the error text that names `holder` as the lock's owner."""
    who = shown(holder)
    return (
        f"{directory} is in use by another run ({who}): wait until it has ended, or stop it; the next run "
        "continues from there"
    )


def shown(holder: dict[str, Any]) -> str:
    if not holder:
        return "it has just started"
    return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"


def record_of(file: IO[str]) -> dict[str, Any]:
    """Return the lock's owner. Empty if the last run ended normally, or the current owner has not written it yet."""
    file.seek(0)
    try:
        found = json.loads(file.read() or "{}")
    except ValueError:
        return {}  # Half written, by a run that was cut off in it.
    return dict(found)


def write(file: IO[str], record: dict[str, Any]) -> None:
    file.truncate(0)
    if record:
        file.write(json.dumps(record))
    file.flush()


def wait_for_java(before: dict[str, Any], directory: Path, say: Say) -> None:
    """Wait until the JVM of a killed run has ended. Raises JobFailed."""
    java = before.get("java")
    if java is None or before["host"] != socket.gethostname() or not is_alive(java, before["java_began"]):
        return
    who = f"process {java}, the JVM of an interrupted run ({shown(before)})"
    say(Notice(f"{directory} is still in use by {who}: waiting for it to end"))
    deadline = time.monotonic() + JAVA_SECONDS_MAX
    while is_alive(java, before["java_began"]):
        if time.monotonic() > deadline:
            raise JobFailed(f"{directory} is still in use by {who}: stop it")
        time.sleep(POLL_SECONDS)


def is_alive(process: int, since: int | None) -> bool:
    """Whether the process still runs. Another process with the same id does not count."""
    return since is not None and began(process) == since


def began(process: int | None) -> int | None:
    """Return the start time of a local process, in ticks since boot (proc(5), field 22). None if it has ended, or the
    system does not report it."""
    if process is None:
        return None
    try:
        state, *fields = (PROCESSES / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])


def now() -> str:
    return datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
