"""The proof on real processes, in small: five nodes in namespaces of their own under faults, judged; and that
nothing is left behind, whoever is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jepsen.judges.verdict import judge_file
from tests.capabilities import require_capability

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS_MAX = 400
WAIT_SECONDS_MAX = 90.0
CHECKED_LEAST = 20_000
ACKNOWLEDGED_LEAST = 3_000
MACHINE = ("root", "netns", "nft", "loop mounts", "xfs")


@pytest.fixture(autouse=True)
def _machine() -> None:
    for capability in MACHINE:
        require_capability(capability)


def jepsen(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jepsen", "run", "--directory", str(directory), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)


def last_line(done: subprocess.CompletedProcess[str]) -> re.Match[str]:
    found = re.fullmatch(
        r"verdict: (ok|violation|invalid) acked=(\d+) checked=(\d+) lost=(\d+) unseen=(\d+)",
        done.stdout.strip().splitlines()[-1],
    )
    assert found is not None, done.stdout + done.stderr
    return found


def test_no_acknowledged_record_is_lost_under_partitions_kills_and_power_failures(tmp_path: Path) -> None:
    done = jepsen(tmp_path, "--plan", "first", "--seconds", "30", "--seed", "1")
    verdict = last_line(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdict.group(1) == "ok"
    assert (verdict.group(4), verdict.group(5)) == ("0", "0")
    assert str(judge_file(tmp_path / "000" / "history.jsonl")) == verdict.group(0), (
        "the history, judged alone, gives another verdict"
    )
    assert "<svg" in (tmp_path / "000" / "report.html").read_text()


@pytest.mark.soak
def test_no_tiered_record_is_lost_while_the_object_store_fails_and_nodes_die(tmp_path: Path) -> None:
    """The run counts only if each fault met the store, and if each partition was read from there in the end."""
    done = jepsen(tmp_path, "--workload", "tiered", "--plan", "store", "--seconds", "40", "--seed", "1")
    verdict = last_line(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (verdict.group(4), verdict.group(5)) == ("0", "0")


@pytest.mark.soak
@pytest.mark.parametrize("seed", [121, 122])
def test_random_faults_on_a_tiered_topic_break_no_guarantee(tmp_path: Path, seed: int) -> None:
    done = jepsen(tmp_path, "--workload", "tiered", "--plan", "swarm", "--seconds", "60", "--seed", str(seed))
    assert last_line(done).group(1) == "ok", done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("seed", [131, 132])
def test_random_faults_under_transactions_break_no_guarantee(tmp_path: Path, seed: int) -> None:
    """A transaction is there whole or not at all, and what is read is written to another topic once."""
    done = jepsen(tmp_path, "--workload", "transactions", "--plan", "swarm", "--seconds", "60", "--seed", str(seed))
    assert last_line(done).group(1) == "ok", done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "disk"), [(101, "ext4"), (102, "xfs"), (103, "ext4")])
def test_random_faults_break_no_guarantee(tmp_path: Path, seed: int, disk: str) -> None:
    done = jepsen(tmp_path, "--plan", "swarm", "--seconds", "60", "--seed", str(seed), "--disk", disk)
    verdict = last_line(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(verdict.group(3)) >= CHECKED_LEAST


@pytest.mark.soak
def test_random_faults_on_nodes_that_require_a_password_break_no_guarantee(tmp_path: Path) -> None:
    """SASL_SSL between all, sessions of five seconds, an authorizer."""
    done = jepsen(tmp_path, "--secured", "--plan", "swarm", "--seconds", "60", "--seed", "20")
    verdict = last_line(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(verdict.group(3)) >= CHECKED_LEAST


@pytest.mark.soak
@pytest.mark.parametrize("seed", [101, 102])
def test_a_share_group_finishes_every_record_once_under_faults(tmp_path: Path, seed: int) -> None:
    done = jepsen(tmp_path, "--workload", "shares", "--plan", "swarm", "--seconds", "60", "--seed", str(seed))
    verdict = last_line(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(verdict.group(2)) > ACKNOWLEDGED_LEAST


@pytest.mark.soak
@pytest.mark.parametrize("seed", [111, 112])
def test_random_faults_under_default_flush_settings_break_no_guarantee(tmp_path: Path, seed: int) -> None:
    done = jepsen(tmp_path, "--plan", "swarm", "--no-flush", "--seconds", "60", "--seed", str(seed))
    verdict = last_line(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(verdict.group(3)) >= CHECKED_LEAST


@pytest.mark.soak
@pytest.mark.parametrize("workload", ["unclean", "balanced"])
def test_losses_of_unclean_elections_are_reported(tmp_path: Path, workload: str) -> None:
    """Every record that was acknowledged and is gone is in a report, and nothing is told to be lost that is there."""
    done = jepsen(tmp_path, "--workload", workload, "--plan", "overtaken-leader", "--seconds", "45", "--seed", "1")
    verdict = last_line(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(verdict.group(4)) > 0, "nothing was lost, so nothing was to be told"


@pytest.mark.soak
def test_a_power_loss_of_all_nodes_loses_only_reported_records_under_defaults(tmp_path: Path) -> None:
    """Without flush.messages=1 what only page caches held may go with the power of all nodes: it is counted, and
    nothing else is lost."""
    done = jepsen(tmp_path, "--plan", "power-all", "--no-flush", "--seconds", "45", "--seed", "1")
    verdict = last_line(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(verdict.group(4)) > 0, "nothing was lost, so nothing was to be excused"


@pytest.mark.soak
@pytest.mark.parametrize(
    "workload", ["queue", "producers", "groups", "shares", "topics", "offsets", "transactions", "unclean", "solo"]
)
def test_the_harness_finds_no_violation_in_apache_kafka(tmp_path: Path, workload: str) -> None:
    require_capability("java17")
    require_capability("mvn")
    done = jepsen(
        tmp_path,
        "--target",
        "kafka",
        "--workload",
        workload,
        "--plan",
        "kafka",
        "--seconds",
        "40",
        "--seed",
        "1",
        "--rate",
        "60",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nodes_of_apache_kafka_and_ours_in_one_cluster_break_no_guarantee(tmp_path: Path) -> None:
    """Two of five nodes are Kafka's. While others die, one of the five changes its program over its disk."""
    require_capability("java17")
    require_capability("mvn")
    done = jepsen(tmp_path, "--target", "mixed", "--plan", "mixed", "--seconds", "40", "--seed", "1", "--rate", "100")
    verdict = last_line(done)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (verdict.group(4), verdict.group(5)) == ("0", "0")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("workload", "plan", "seed"),
    [
        ("queue", "mixed", 11),
        ("queue", "swarm", 23),
        ("groups", "swarm", 14),
        ("transactions", "mixed", 12),
        ("transactions", "swarm", 17),
        ("shares", "mixed", 13),
        ("producers", "partitions", 16),
    ],
)
def test_nodes_of_apache_kafka_and_ours_break_no_guarantee_under_any_workload(
    tmp_path: Path, workload: str, plan: str, seed: int
) -> None:
    require_capability("java17")
    require_capability("mvn")
    run = ("--target", "mixed", "--workload", workload, "--plan", plan, "--seconds", "60", "--seed", str(seed))
    done = jepsen(tmp_path, *run)
    assert last_line(done).group(1) == "ok", done.stdout + done.stderr


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run that would go on for long, with its nodes up."""
    (tmp_path / "temporary").mkdir()
    command = [
        sys.executable,
        "-m",
        "jepsen",
        "run",
        "--plan",
        "calm",
        "--seconds",
        "300",
        "--directory",
        str(tmp_path / "runs"),
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    started = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    until(lambda: len(list(tmp_path.glob("runs/000/node-*.log"))) == 5, "the nodes do not start")
    yield started
    if started.poll() is None:
        started.kill()
    started.wait(WAIT_SECONDS_MAX)


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def processes_of(directory: Path) -> list[int]:
    """Processes that were told of the directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            told = entry.joinpath("environ").read_bytes() + entry.joinpath("cmdline").read_bytes()
        except OSError:
            continue
        if str(directory).encode() in told and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def loop_devices(process: int) -> dict[Path, str]:
    """The loop devices mounted where a process lives, each with a number that changes when it is used for something
    else."""
    mounts = Path(f"/proc/{process}/mounts").read_text()
    devices = [Path("/sys/block") / name for name in re.findall(r"^/dev/(loop\d+) ", mounts, re.MULTILINE)]
    return {device: device.joinpath("diskseq").read_text() for device in devices}


def is_free(device: Path, number: str) -> bool:
    return not device.joinpath("loop").exists() or device.joinpath("diskseq").read_text() != number


def first_inside(harness: subprocess.Popen[bytes]) -> int:
    """Process 1 of the sandbox: the child of unshare, which is the child of the harness, beside the watchdog."""
    children = Path(f"/proc/{harness.pid}/task/{harness.pid}/children").read_text().split()
    unshare = next(int(child) for child in children if b"unshare" in Path(f"/proc/{child}/cmdline").read_bytes())
    return int(Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()[0])


@pytest.mark.parametrize("whom", ["the harness", "the first process inside"])
def test_killing_any_process_of_the_harness_leaves_nothing_behind(
    tmp_path: Path, harness: subprocess.Popen[bytes], whom: str
) -> None:
    temporary = tmp_path / "temporary"
    devices = loop_devices(first_inside(harness))
    assert len(devices) == 5
    os.kill(harness.pid if whom == "the harness" else first_inside(harness), signal.SIGKILL)
    harness.wait(WAIT_SECONDS_MAX)
    until(lambda: not processes_of(temporary), "processes are left")
    until(lambda: not list(temporary.iterdir()), "the scratch directory is left")
    until(lambda: all(is_free(*each) for each in devices.items()), "loop devices are left")
    assert str(temporary) not in Path("/proc/mounts").read_text()
