"""What the Spark harness makes of rounds that prove nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.testing.node_process import NodeFailed

harness = pytest.importorskip("jepsen.spark.__main__")
job = pytest.importorskip("jepsen.spark.job")
rounds = pytest.importorskip("jepsen.spark.round")


class Node:
    """A process that runs or does not."""

    def __init__(self, runs: bool) -> None:
        self.process = SimpleNamespace(poll=lambda: None if runs else 9)
        self.starts = 0

    def start(self) -> None:
        self.starts += 1


@pytest.mark.parametrize(
    "problem", [AssertionError("nothing bit"), TimeoutError("stuck"), NodeFailed("it did not serve")]
)
def test_an_inconclusive_round_is_invalid_and_the_next_one_runs(problem: Exception) -> None:
    nodes = {1: Node(runs=True), 2: Node(runs=False)}
    told = harness.Told(SimpleNamespace(nodes=nodes))

    def broken() -> Any:
        raise problem

    told.of("round 1", broken, [])
    told.of("round 2", lambda: [harness.Verdict("kraft", checked=3)], ["a fault"])
    assert (told.invalid, told.done, [each.checked for each in told.verdicts]) == (1, 1, [3])
    assert (nodes[1].starts, nodes[2].starts) == (0, 2), "what is down is started before a round"


def job_in(place: Path) -> Any:
    return job.Job({"bootstrap": "h:1", "topic": "t", "sources": ["kraft", "kafka"], "directory": str(place)}, None)


def fail(running: Any, times: int) -> None:
    for _ in range(times):
        running.failed("kraft-log", "java.io.IOException: Stream closed")


def test_a_driver_whose_python_workers_never_start_gives_up(tmp_path: Path) -> None:
    running = job_in(tmp_path)
    fail(running, job.FACTORY_FAILURES_MAX - 1)
    running.python_worked("kafka-parquet")
    with pytest.raises(job.FactoryStuck, match="Stream closed"):
        fail(running, 1)
    assert (tmp_path / "events.jsonl").read_text().count("failed") == job.FACTORY_FAILURES_MAX


def test_a_driver_whose_workers_start_sometimes_continues_and_other_failures_do_not_count(tmp_path: Path) -> None:
    running = job_in(tmp_path)
    for _ in range(3):
        fail(running, job.FACTORY_FAILURES_MAX - 1)
        running.python_worked("kraft-parquet")
    for _ in range(2 * job.FACTORY_FAILURES_MAX):
        running.failed("kraft-log", "the coordinator is not there")


class StuckDriver:
    """Ends with STUCK as often as it is told to."""

    def __init__(self, times: int, place: Path) -> None:
        self.ends = [job.STUCK] * times + [0]
        self.starts = 0
        self.directory = place

    def wait(self) -> int:
        return self.ends.pop(0)

    def kill(self) -> None: ...

    def start(self) -> None:
        self.starts += 1

    def log_tail(self) -> str:
        return "log"


def test_a_stuck_driver_is_restarted_a_limited_number_of_times(tmp_path: Path) -> None:
    one = rounds.Round(SimpleNamespace(bootstrap="h:1"), tmp_path, 1, ("kraft",), ("leader",), "local[2]")
    one.driver = StuckDriver(rounds.STUCK_MAX, tmp_path)
    one.until_drained()
    assert one.driver.starts == rounds.STUCK_MAX
    assert len(one.bites) == rounds.STUCK_MAX, "it is told"
    one.driver = StuckDriver(1, tmp_path)
    with pytest.raises(AssertionError, match="cannot start Python workers"):
        one.until_drained()


def test_the_start_logged_beside_the_first_batchs_end_is_no_partition_offset(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for number, line in enumerate(('{"t":{"00":0,"0":5,"010":1,"10":7}}', '{"t":{"0":6,"10":8}}')):
        (tmp_path / "offsets" / str(number)).write_text(f"v1\n{{}}\n{line}")
    assert rounds.checkpointed(tmp_path, "t") == [{"0": 5, "10": 7}, {"0": 6, "10": 8}]
