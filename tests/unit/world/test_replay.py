"""A seed is the whole of a simulation: another process, hash seed, environment and working directory give the same
trace.

Without the scheduling knobs they would not.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio._core import _run

from kraft.world.simulated import scheduling
from tests.unit.world import toy_cluster

ROOT = Path(__file__).resolve().parents[3]
SEEDS = range(100 if os.environ.get("KRAFT_SOAK") == "1" else 4)


def in_a_fresh_process(seed: int, where: Path, hash_seed: str, padding: int) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": hash_seed,
        "PADDING": "x" * padding,
        "TZ": "Asia/Kathmandu",
    }
    command = [sys.executable, "-m", "tests.unit.world.toy_cluster", str(seed)]
    return subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, check=True, timeout=120
    ).stdout.strip()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_in_another_process_gives_the_same_trace(seed: int, tmp_path: Path) -> None:
    here = toy_cluster.run(str(seed))
    assert in_a_fresh_process(seed, tmp_path, "1", 0) == here
    assert in_a_fresh_process(seed, ROOT, "31337", 5000) == here


def test_a_loop_on_another_thread_does_not_change_the_trace() -> None:
    alone = toy_cluster.run("3")
    with a_busy_loop_on_another_thread():
        assert toy_cluster.run("3") == alone


@contextlib.contextmanager
def a_busy_loop_on_another_thread() -> Iterator[None]:
    """As a cluster that serves a session's tests is: it schedules some tasks at once, over and over."""
    ended, running = threading.Event(), threading.Event()

    async def work() -> None:
        while not ended.is_set():
            await trio.lowlevel.checkpoint()
            running.set()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(work)

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        assert running.wait(60)
        yield
    finally:
        ended.set()
        thread.join()


def test_another_seed_produces_another_trace() -> None:
    assert toy_cluster.run("1") != toy_cluster.run("2")


def test_the_trace_hash_is_the_hash_of_the_trace_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert toy_cluster.run("5", str(first)) == toy_cluster.run("5", str(second)) == toy_cluster.run("5")
    assert first.read_bytes() == second.read_bytes()
    assert b"fate power off" in first.read_bytes() or b"fate kill" in first.read_bytes()


def test_without_seeded_scheduling_ties_make_two_runs_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the replay tests do see the order of tasks."""
    monkeypatch.setattr(toy_cluster.Universe, "run", run_without_knobs)
    assert toy_cluster.run("1") != toy_cluster.run("1")


def run_without_knobs(universe: toy_cluster.Universe, body: object, *, seconds_max: float) -> None:
    universe.time.ended = False
    trio.run(universe._main, body, seconds_max, clock=universe.time)


@pytest.mark.parametrize("knob", scheduling.KNOBS)
def test_a_trio_version_without_the_needed_scheduler_attributes_is_refused(
    knob: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.delattr(_run, knob)
        with pytest.raises(RuntimeError, match=knob):
            scheduling.check_knobs()
    monkeypatch.setattr(_run, "unrolled_run", in_a_fresh_process)
    with pytest.raises(RuntimeError, match="is gone"):
        scheduling.check_knobs()


@pytest.mark.parametrize("factory", scheduling.FACTORIES)
def test_a_trio_version_that_creates_cancel_scopes_differently_is_refused(
    factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(_run.CancelStatus.__init__.__globals__, factory)
    with pytest.raises(RuntimeError, match=factory):
        scheduling.check_knobs()


def test_a_cancellation_reaches_tasks_and_inner_scopes_in_creation_order() -> None:
    reached: list[int] = []

    async def wait(number: int, task_status: trio.TaskStatus[None]) -> None:
        def abort(_: object) -> trio.lowlevel.Abort:
            reached.append(number)
            return trio.lowlevel.Abort.SUCCEEDED

        with trio.CancelScope() if number % 2 else contextlib.nullcontext():
            task_status.started()
            await trio.lowlevel.wait_task_rescheduled(abort)

    async def cancelled() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(40):
                await nursery.start(lambda task_status, number=number: wait(number, task_status))
            nursery.cancel_scope.cancel()

    with scheduling.seeded_scheduling("any"):
        trio.run(cancelled)
    assert [number for number in reached if number % 2 == 0] == list(range(0, 40, 2))
    scoped = [number for number in reached if number % 2]
    assert scoped in (list(range(1, 40, 2)), list(range(39, 0, -2)))


def test_trios_scheduler_is_restored_after_a_simulation() -> None:
    before, state, allowed = _run._r, _run._r.getstate(), _run._ALLOW_DETERMINISTIC_SCHEDULING
    with scheduling.seeded_scheduling("any"):
        assert _run._ALLOW_DETERMINISTIC_SCHEDULING
        assert _run._r.getstate() != state
    assert _run._ALLOW_DETERMINISTIC_SCHEDULING is allowed
    assert _run._r is before
    assert before.getstate() == state
    assert all(_run.CancelStatus.__init__.__globals__[factory] is set for factory in scheduling.FACTORIES)
