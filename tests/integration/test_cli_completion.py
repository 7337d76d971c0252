"""What the shell offers behind `kraft`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.cli.admin.app import main
from tests.integration.rest_node import RunningNode, running_node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node")) as started:
        yield started


def completed(words: str, **environment: str) -> list[str]:
    outcome = subprocess.run(
        [sys.executable, "-m", "kraft.cli.admin.app"],
        env={
            **os.environ,
            **environment,
            "_KRAFT_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return outcome.stdout.split()


def test_completion_offers_nouns_and_verbs() -> None:
    assert completed("kraft to") == ["topics", "tokens", "top"]
    assert completed("kraft topics de") == ["describe", "delete", "delete-records"]


def test_completion_offers_names_from_the_cluster(node: RunningNode, tmp_path: Path) -> None:
    here = f"-b {node.kafka}"
    for name in ("completed-a", "completed-b"):
        assert main(["topics", "create", name, "-b", node.kafka]) == 0
    assert completed(f"kraft topics describe {here} completed") == ["completed-a", "completed-b"]
    assert completed("kraft consume completed-b", KRAFT_BOOTSTRAP_SERVER=node.kafka) == ["completed-b"]
    assert completed(f"kraft brokers describe {here} ") == ["1"]
    profiles = {"KRAFT_PROFILES": str(tmp_path / "profiles.toml")}
    (tmp_path / "profiles.toml").write_text(f"[here]\nbootstrap-server = '{node.kafka}'\n")
    (tmp_path / "profiles.toml").chmod(0o600)
    assert completed("kraft --profile here topics delete completed-a", **profiles) == ["completed-a"]
    assert completed("kraft topics describe -b 127.0.0.1:1 completed") == []
