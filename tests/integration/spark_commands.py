"""`kraft spark` as tests run it: in this process, in a session that is there already, because starting one costs
more than a job; and in processes of its own that are killed. Beside it, the records that it moves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TextIO

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from jepsen.spark.spark_logs import read_to_the_end
from kraft.cli.admin.app import main
from tests.integration.clusters import Cluster
from tests.integration.outcomes import Kraft, Outcome

BASE_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


class Sent(NamedTuple):
    """A record. Partition -1: wherever the client puts it; time 0: now."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    time_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


def send(
    cluster: Cluster, topic: str, records: Iterable[Sent], settings: Mapping[str, Any] = MappingProxyType({})
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for each in records:
        producer.produce(
            topic, each.value, each.key, each.partition, timestamp=each.time_ms, headers=list(each.headers)
        )
    assert producer.flush(30) == 0


def values(cluster: Cluster, topic: str) -> list[bytes]:
    """Of all records, sorted."""
    return sorted(message.value() or b"" for message in read_to_the_end(cluster.bootstrap, topic))


def as_sent(cluster: Cluster, topic: str) -> list[Any]:
    """(partition, key, value, headers, timestamp) of each record, in order within partitions."""
    rows = [
        (each.partition(), each.key(), each.value(), each.headers(), each.timestamp())
        for each in read_to_the_end(cluster.bootstrap, topic)
    ]
    return sorted(rows, key=lambda row: int(row[0] or 0))


def until(seen: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 90) -> None:
    """Wait for what the process brings about."""
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.2)


def where(cluster: Cluster) -> tuple[str, ...]:
    return "--bootstrap-server", cluster.bootstrap, "--master", "local[2]"


@contextlib.contextmanager
def running(
    cluster: Cluster, *arguments: str, is_read: bool = False, said: TextIO | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own. It and its JVM are killed with SIGKILL at the end, if they are there.
    `is_read`: somebody reads what it says. `said`: its stderr goes there."""
    command = [sys.executable, "-m", "kraft.cli.admin.app", "spark", *arguments, *where(cluster)]
    pipe = subprocess.PIPE if is_read else None
    with subprocess.Popen(command, start_new_session=True, text=True, stdout=pipe, stderr=said or pipe) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    await_session_end(process.pid)


def await_session_end(session: int) -> None:
    """Wait until no process of the session is left. Spark's Python workers are groups of their own: they outlive a
    killed JVM, and write to the end what they have begun."""
    deadline = time.monotonic() + 90
    while is_session_alive(session):
        assert time.monotonic() < deadline, f"processes of session {session} are still there"
        time.sleep(0.1)


def is_session_alive(session: int) -> bool:
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, number = each.read_text().rpartition(") ")[2].split()[:4]
            if int(number) == session and state != "Z":
                return True
    return False


def kill_after_a_batch(cluster: Cluster, *arguments: str) -> None:
    """Run the command, and kill it with SIGKILL when it has told of a batch, before it is done."""
    with running(cluster, *arguments, is_read=True) as process:
        assert process.stderr is not None
        told = next((line for line in process.stderr if line.startswith("batch ")), None)
    assert told is not None, "it ended before it told of a batch"
    assert process.returncode == -signal.SIGKILL


def cut_off(cluster: Cluster, module: str, step: tuple[str, str, int], arguments: list[str], home: Path) -> None:
    """Run the command, which kills itself at a step: a function of the module, when, and the call of it. What it says
    goes to a file: Spark's workers outlive a group that is killed, and would hold a pipe open."""
    planted = [sys.executable, "-m", "tests.integration.job_cut_off", module, *map(str, step)]
    said = home / "said"
    with said.open("w") as file:
        whole = [*planted, *arguments, *where(cluster)]
        with subprocess.Popen(whole, stdout=file, stderr=file, start_new_session=True) as process:
            code = process.wait(timeout=120)
    await_session_end(process.pid)
    assert code == -signal.SIGKILL, (step, said.read_text())


def kraft_in(
    cluster: Cluster,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    home: Path,
) -> Kraft:
    """The command, whose files are in `home` and whose default cluster is `cluster`."""

    @contextlib.contextmanager
    def lent(master: str, settings: dict[str, str], tell: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("kraft.spark.jobs.session.spark_session", lent)
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", cluster.bootstrap)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state-home"))
    monkeypatch.chdir(home)

    def run(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = main(["spark", *arguments])
        out, err = capfd.readouterr()
        return Outcome(code, out, err)

    return run
