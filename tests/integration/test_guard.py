"""Planted tests that hang, kill their worker, leave a process behind and never end: each turns red by its name, and
the rest of the run goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from kraft.testing.foreign.stacks import native_stacks
from tests.capabilities import require_capability

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
LEAVES = """
    import subprocess
    import pytest

    @pytest.fixture(scope="module")
    def server():
        subprocess.Popen(["sleep", "613"])
        yield
        subprocess.run(["true"], check=True)

    def test_needs_it(server):
        pass

    def test_leaves_a_server():
        subprocess.Popen(["sh", "-c", "sleep 612 & exit 0"]).wait()

    def test_ends_its_server(server):
        with subprocess.Popen(["sleep", "614"]) as process:
            process.kill()
"""
COLLECTS_FOR_EVER = """
    import time
    time.sleep(600)

    def test_is_never_found():
        pass
"""


def run(folder: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(textwrap.dedent(text))
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.guard", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    command += ["-p", "xdist.plugin", "-p", "xdist.looponfail", "-p", "pytest_timeout", "-n2", "--dist=loadfile"]
    command += ["-o", "timeout=1", "-o", "guard_grace_seconds=1", *options, str(folder)]
    bare = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


def runs(pid: int) -> bool:
    """It is there, and no zombie that nobody has waited for."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


def test_a_test_that_waits_in_c_fails_and_the_rest_of_the_run_continues(tmp_path: Path) -> None:
    require_capability("gdb")
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


def test_a_test_that_leaves_a_process_behind_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", "timeout=30", leaves=LEAVES, passes=PASSES)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search("6 passed.* 2 errors", done.stdout), done.stdout
    assert "ERROR at teardown of test_leaves_a_server" in done.stdout, "what a test starts ends with it"
    assert re.search(r"sleep 612 \(\d+\), started by test_leaves.py::test_leaves_a_server", done.stdout)
    assert "ERROR at teardown of test_ends_its_server" in done.stdout, "what a fixture starts ends with the file"
    assert re.search(r"sleep 613 \(\d+\), started by test_leaves.py::test_needs_it", done.stdout)
    for number in re.findall(r"sleep 61\d \((\d+)\)", done.stdout):
        assert not runs(int(number)), "it was killed"


def test_a_collection_that_hangs_is_terminated(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", "collect_seconds_max=3", for_ever=COLLECTS_FOR_EVER)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "no test had begun after 3 s; what still runs:" in done.stderr
    assert 'test_for_ever.py", line 3 in <module>' in done.stderr, "the stack of the collection is shown"


def test_an_overdue_run_reports_the_running_tests_and_ends(tmp_path: Path) -> None:
    done = run(tmp_path, "-o", "timeout=100", "-o", "run_seconds_max=3", passes=PASSES, hangs=HANGS)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the run was not over after 3 s; what still runs:" in done.stderr
    assert "test_hangs.py::test_waits_in_c for" in done.stderr


def test_native_stacks_name_the_call_in_which_a_process_waits() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            told = native_stacks(sleeper.pid)
        finally:
            sleeper.kill()
    assert "thread" in told.lower()
