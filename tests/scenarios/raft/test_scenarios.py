"""Runs the scripts beside this file. A line is `verb arguments -> what is expected`; `#` begins a comment. Words
`from` and `to` are for the reader.

KRAFT_REWRITE=1 writes what happened behind each arrow; read the difference before you keep it.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tests.scenarios.raft.cluster import ScriptedCluster

HERE = Path(__file__).parent
FILLERS = {"from", "to", "of"}


def execute(cluster: ScriptedCluster, command: str) -> str:
    verb, *words = shlex.split(command)
    arguments = [int(word) if word.isdigit() else word for word in words if word not in FILLERS]
    result: str = getattr(cluster, verb.replace("-", "_"))(*arguments)
    return result


@pytest.mark.parametrize("script", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_scenario(script: Path) -> None:
    cluster, happened = ScriptedCluster(), []
    for number, line in enumerate(script.read_text().splitlines(), 1):
        command, _, expected = line.partition("->")
        if not command.strip() or command.startswith("#"):
            happened.append(line)
            continue
        result = execute(cluster, command)
        happened.append(f"{command.rstrip():<32} -> {result}" if result else line)
        if os.environ.get("KRAFT_REWRITE") != "1":
            assert result == expected.strip(), f"{script.name}:{number}: {command.strip()}"
    if os.environ.get("KRAFT_REWRITE") == "1":
        script.write_text("\n".join(happened) + "\n")
