"""One run of a job at a time in one checkpoint, however the run before ended. Without Spark."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.spark.jobs import lock
from kraft.spark.jobs.job_state import Memory
from kraft.spark.jobs.lock import NAME, began, sole_run
from kraft.spark.jobs.running import JobFailed, Notice

HOLDER = """
import sys
from pathlib import Path
from kraft.spark.jobs.lock import sole_run
with sole_run(Path(sys.argv[1]), None, print):
    print("held", flush=True)
    sys.stdin.read()
"""


def held_elsewhere(place: Path) -> subprocess.Popen[str]:
    """Another run, which has the checkpoint once this returns."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_run_is_refused_with_the_owner_and_a_killed_run_leaves_no_lock(tmp_path: Path) -> None:
    place, said = tmp_path / "state" / "job", list[Any]()
    with held_elsewhere(place) as holder:
        who = rf"process {holder.pid} on {socket.gethostname()}, since 20\d\d-.*\+00:00"
        with (
            pytest.raises(JobFailed, match=rf"{place} is in use by another run \({who}\)"),
            sole_run(place, None, said.append),
        ):
            raise AssertionError("two at once")
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with sole_run(place, None, said.append):
        assert json.loads((place / NAME).read_text())["pid"] == os.getpid()
    assert (place / NAME).read_text() == ""
    assert said == []


def test_a_failed_run_releases_its_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it"), sole_run(tmp_path, None, print):
        raise ValueError("it")
    with (
        sole_run(tmp_path, None, print),
        pytest.raises(JobFailed, match=f"process {os.getpid()}"),
        sole_run(tmp_path, None, print),
    ):
        pass


def left_behind(place: Path, **record: Any) -> None:
    """What a run left that was killed."""
    (place / NAME).write_text(json.dumps({"host": socket.gethostname(), "pid": 1, "since": "then", **record}))


def test_a_run_waits_for_the_jvm_of_a_killed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as java:
        waits: list[float] = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                java.kill()  # Not reaped yet: a process that has ended holds nothing.
                os.waitid(os.P_PID, java.pid, os.WEXITED | os.WNOWAIT)

        monkeypatch.setattr(lock, "time", SimpleNamespace(monotonic=lambda: float(len(waits)), sleep=sleep))
        left_behind(tmp_path, java=java.pid, java_began=began(java.pid))
        with sole_run(tmp_path, None, said.append):
            assert len(waits) == 3
        assert [f"process {java.pid}, the JVM of an interrupted run" in each.text for each in said] == [True]


def test_a_jvm_that_does_not_exit_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "JAVA_SECONDS_MAX", -1.0)
    left_behind(tmp_path, java=os.getpid(), java_began=began(os.getpid()))
    with (
        pytest.raises(JobFailed, match=f"process {os.getpid()}, the JVM of an interrupted run .*: stop it"),
        sole_run(tmp_path, None, print),
    ):
        pass


@pytest.mark.parametrize(
    "record",
    [
        {"java": None, "java_began": None},
        {"java": os.getpid(), "java_began": 1},
        {"host": "another", "java": os.getpid()},
    ],
)
def test_another_process_with_a_reused_process_id_is_not_waited_for(tmp_path: Path, record: dict[str, Any]) -> None:
    left_behind(tmp_path, **record)
    with sole_run(tmp_path, None, print):
        pass


def test_a_truncated_lock_record_is_ignored(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"host": "h", "pi')
    with sole_run(tmp_path, None, print):
        pass


def test_a_file_system_without_locks_is_reported_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    said: list[Any] = []
    monkeypatch.setattr(lock.fcntl, "flock", flock)
    with sole_run(tmp_path, None, said.append):
        pass
    assert [isinstance(each, Notice) and each.is_warning and "cannot be locked" in each.text for each in said] == [True]


def test_a_checkpoint_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JobFailed, match="cannot be written"), sole_run(tmp_path / "file", None, print):
        pass


@pytest.mark.parametrize(("uri", "is_locked"), [("file:/{0}", True), ("hdfs://names/{0}", False)])
def test_a_checkpoint_is_locked_when_it_is_a_local_directory(tmp_path: Path, uri: str, is_locked: bool) -> None:
    place = tmp_path / "job"
    scheme = uri.partition(":")[0]
    found = SimpleNamespace(getScheme=lambda: scheme, getPath=lambda: str(place))
    files = SimpleNamespace(makeQualified=lambda path: SimpleNamespace(toUri=lambda: found))
    path = SimpleNamespace(getFileSystem=lambda _: files)
    jvm = SimpleNamespace(
        org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=SimpleNamespace(Path=lambda *_: path))))
    )
    context = SimpleNamespace(_gateway=SimpleNamespace(proc=SimpleNamespace(pid=os.getpid())))
    session: Any = SimpleNamespace(
        _jvm=jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: None), sparkContext=context
    )
    with Memory(session, uri.format(place)).alone(print):
        assert (place / NAME).exists() is is_locked
        if is_locked:
            assert json.loads((place / NAME).read_text())["java"] == os.getpid()
