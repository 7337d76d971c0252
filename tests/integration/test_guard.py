"""Planted tests that hang, kill their worker and never end: each turns red by its name, and the rest of the run goes
on."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from kraft.testing.foreign.process import native_stacks

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 60
PASSES = """
    import pytest

    @pytest.mark.parametrize("number", range(3))
    def test_passes(number):
        pass
"""
HANGS = """
    import ctypes
    import subprocess

    def test_before():
        pass

    def test_waits_in_c():
        subprocess.Popen(["sleep", "611"])
        library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
        library.pthread_mutex_lock(mutex)
        library.pthread_mutex_lock(mutex)  # With the interpreter's lock held: no signal reaches Python.

    def test_after():
        pass
"""
DIES = """
    import os, signal

    def test_kills_its_worker():
        os.kill(os.getpid(), signal.SIGKILL)

    def test_after_that():
        pass
"""


def run(folder: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(textwrap.dedent(text))
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.guard", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    command += ["-n2", "--dist=loadfile", "-o", "timeout=1", "-o", "guard_grace_seconds=1", *options, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


def test_a_test_that_waits_in_c_is_red_and_the_rest_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, passes=PASSES, hangs=HANGS, dies=DIES)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed, 6 passed" in done.stdout, done.stdout
    assert "crashed while running 'test_dies.py::test_kills_its_worker'" in done.stdout
    assert "crashed while running 'test_hangs.py::test_waits_in_c'" in done.stdout
    assert "it was not over after 2 s, and its worker was killed" in done.stdout
    assert 'test_hangs.py", line 12 in test_waits_in_c' in done.stdout, "Python's stack is shown"
    assert "pthread_mutex_lock" in done.stdout, "the native stack is shown"
    assert "killed what it had started: sleep 611" in done.stdout


def test_a_worker_that_dies_in_the_last_test_ends_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, dies=DIES.partition("def test_after_that")[0])
    assert "1 failed" in done.stdout, done.stdout + done.stderr


def test_a_run_that_is_overdue_says_what_runs_and_ends(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", "timeout=100", "-o", "run_seconds_max=3", passes=PASSES, hangs=HANGS)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the run was not over after 3 s; what still runs:" in done.stderr
    assert "test_hangs.py::test_waits_in_c for" in done.stderr


def test_native_stacks_name_what_a_process_waits_in() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            told = native_stacks(sleeper.pid)
        finally:
            sleeper.kill()
    assert "thread" in told.lower()
