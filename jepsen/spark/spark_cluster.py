"""Spark's standalone cluster on this machine. Each worker has its own address, because Spark runs a second copy of a
slow task only on another host. With a local master it runs none."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pyspark

from jepsen.spark.processes import ROOT, command_of, descendants
from kraft.testing.ports import free_ports

WORKERS = ("127.0.0.2", "127.0.0.3")
START_SECONDS_MAX = 60.0
HOME = Path(pyspark.__file__).parent
SCALA = "2.13"
"""The Scala version of Spark 4. Spark detects it by itself only in a checkout of its sources."""


class SparkCluster:
    """A master and two workers with `cores` cores each. After a driver is killed, its executors and their tasks run on
    for a moment. Use as a context manager: all processes are stopped at its end."""

    def __init__(self, directory: Path, cores: int = 2) -> None:
        self.directory = directory
        self.cores = cores
        self.port, self.ui = free_ports(2)
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> SparkCluster:
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self.launch("master", "master.Master", "--host", "127.0.0.1", "--port", str(self.port))
            for host in WORKERS:
                place = self.directory / host
                self.launch(
                    host, "worker.Worker", "--host", host, "--cores", str(self.cores), "--memory", "2g",
                    "--work-dir", str(place), self.master,
                )  # fmt: skip
            self.until_registered()
        except BaseException:
            self.close()
            raise
        return self

    def launch(self, name: str, program: str, *arguments: str) -> None:
        environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": SCALA}
        command = ["java", "-Xmx256m", "-cp", f"{HOME}/jars/*", f"org.apache.spark.deploy.{program}"]
        with open(self.log(name), "wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [*command, "--webui-port", str(self.ui if name == "master" else 0), *arguments],
                    cwd=ROOT,
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def until_registered(self) -> None:
        """Wait until both workers are registered. Raises TimeoutError."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.log("master").read_text(errors="replace").count("Registering worker") < len(WORKERS):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Spark's workers do not register: {self.log('master').read_text()[-2000:]}")
            time.sleep(0.1)

    def python_workers(self) -> list[int]:
        """Return the Python processes of all executors, with the daemons that fork them."""
        found = [pid for process in self.processes for pid in descendants(process.pid)]
        return [pid for pid in found if "pyspark.daemon" in command_of(pid)]

    def close(self) -> None:
        """Stop the workers first, because they stop their executors."""
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
