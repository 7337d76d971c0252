"""The examples for Java and Go of docs/share-groups.md are compiled as they stand there, and run.

Each fails a job once, which is delivered again. Go's client comes from the Go module proxy, so its test exists only on
machines that have Go.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.java.jars import jars
from kraft.testing.foreign.librdkafka import Producer
from kraft.testing.node_process import NodeProcess
from tests.capabilities import require_capability

PAGE = Path(__file__).resolve().parents[2] / "docs" / "share-groups.md"
KRAFT = [sys.executable, "-m", "kraft.cli.admin.app"]
JOBS = [b"1", b"2", b"3", b"4", b"5"]
SECONDS_MAX = 120
JAVA = """
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Jobs {
    static Set<String> seen = new HashSet<>();
    static boolean run(ConsumerRecord<String, String> job) {
        System.out.println("job " + job.value());
        return seen.add(job.value()) && !job.value().equals("3") || job.deliveryCount().get() > 1;
    }
    public static void main(String[] arguments) {
%s
    }
}
"""
GO = """
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/twmb/franz-go/pkg/kgo"
)

var failed = false

func run(job *kgo.Record) bool {
	fmt.Println("job", string(job.Value))
	if string(job.Value) == "3" && !failed {
		failed = true
		return false
	}
	return true
}

func main() {
	ctx := context.Background()
%s
}
"""
GO_CLIENT = "github.com/twmb/franz-go/pkg/kgo@v1.21.0"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node with a share group that starts at the first of five jobs."""
    with NodeProcess(tmp_path / "node") as started:
        kraft(started, "topics", "create", "jobs", "-p", "1")
        kraft(started, "configs", "set", "group", "workers", "share.auto.offset.reset=earliest")
        producer = Producer({"bootstrap.servers": started.bootstrap})
        for job in JOBS:
            producer.produce("jobs", job)
        assert producer.flush(30) == 0
        yield started


def kraft(node: NodeProcess, *words: str) -> str:
    command = [*KRAFT, *words, "-b", node.bootstrap]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def example(heading: str, node: NodeProcess) -> str:
    """The code block below a heading of the page, for the address of a node."""
    found = re.search(rf"^## {heading}$.*?^```text$\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert found is not None, f"{PAGE.name} has no example below {heading}"
    return textwrap.indent(found[1].replace("127.0.0.1:9092", node.bootstrap), "    ")


def run_until_finished(node: NodeProcess, command: list[str], directory: Path) -> list[str]:
    """The jobs that a program has worked on, in order, once the group has finished all."""
    output = directory / "output"
    with output.open("w") as file:
        program = subprocess.Popen(command, cwd=directory, stdout=file, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while not is_finished(node):
            assert program.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.5)
    finally:
        program.kill()
        program.wait()
    return [line.removeprefix("job ") for line in output.read_text().splitlines() if line.startswith("job ")]


def is_finished(node: NodeProcess) -> bool:
    """Whether the start offset of the group is after the last job."""
    listed = json.loads(kraft(node, "share", "list", "-o", "json"))["groups"]
    if not listed:
        return False
    [group] = json.loads(kraft(node, "share", "describe", "workers", "--offsets", "-o", "json"))["groups"]
    return [each["start_offset"] for each in group["offsets"]] == [len(JOBS)]


@pytest.mark.java
@pytest.mark.timeout(200)
def test_the_example_for_java_runs_each_job_and_a_failed_one_again(node: NodeProcess, tmp_path: Path) -> None:
    require_capability("java17")
    require_capability("mvn")
    source = tmp_path / "Jobs.java"
    source.write_text(JAVA % example("From Java", node))
    found = run_until_finished(node, ["java", "-cp", f"{jars('kafka')}/*", str(source)], tmp_path)
    assert Counter(found) == {"1": 1, "2": 1, "3": 2, "4": 1, "5": 1}


if shutil.which("go"):

    @pytest.mark.timeout(300)
    def test_the_example_for_go_runs_each_job_and_a_failed_one_again(node: NodeProcess, tmp_path: Path) -> None:
        (tmp_path / "main.go").write_text(GO % example("From Go", node))
        for words in (["mod", "init", "jobs"], ["get", GO_CLIENT], ["build", "-o", "jobs", "."]):
            done = subprocess.run(
                ["go", *words], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
            )
            assert done.returncode == 0, done.stderr
        found = run_until_finished(node, ["./jobs"], tmp_path)
        assert Counter(found) == {"1": 1, "2": 1, "3": 2, "4": 1, "5": 1}
