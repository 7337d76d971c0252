"""A node, and the `kraft` command against it."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.cli.admin.app import main
from kraft.testing.node_process import NodeProcess
from tests.integration.outcomes import Kraft, Outcome


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory = tmp_path_factory.mktemp("node")
    with NodeProcess(
        directory, "--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=2"
    ) as running:
        yield running


@pytest.fixture
def kraft(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> Kraft:
    """Runs the command in this process (a process each would cost most of the time), with standard input from a
    file."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP_SERVER", node.bootstrap)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, lines: bytes = b"") -> Outcome:
        (tmp_path / "stdin").write_bytes(lines)
        with open(tmp_path / "stdin", "rb") as file:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            capfdbinary.readouterr()
            code = main(arguments)
            sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode(), err.decode())

    return run
