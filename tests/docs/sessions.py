"""Runs the blocks of a session as a reader would paste them: one after the other, in one shell.

The shell is in a network namespace of its own, so that the ports of the documents are free, and in an empty directory.
A block that fails ends the session. What each prints is compared with the `output` block behind it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.docs.blocks import ROOT, Block, blocks_of, documents

SECONDS_MAX = 540
READY_SECONDS_MAX = 120
PROGRAMS = ("curl", "kcat", "openssl")
"""Names of programs and of the capabilities (`tests/preflight.py`) that stand for them."""
PREAMBLE = "set -euo pipefail\nip link set lo up\n"


@dataclass(frozen=True)
class Session:
    """`prepare` is run before the first block, in the same shell; it makes what the documents presuppose."""

    name: str
    prepare: str = ""
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One run of one block, or of a Python block and those that continue it."""

    block: Block
    text: str
    output: tuple[str, ...] = ()
    """What it is documented to print."""


def steps_of(session: str) -> list[Step]:
    """What the session runs, in the order of the documents."""
    steps: list[Step] = []
    for document in documents():
        ours = False  # Whether the block just before this one is a part of the session.
        place = 0  # Of its step.
        for block in blocks_of(document):
            if ours and "output" in block.marks:
                output = (*steps[place].output, *block.text.splitlines())
                steps[place] = replace(steps[place], output=output)
            ours = block.marks.get("session") == session
            if ours and "continues" in block.marks:
                place = max(index for index, step in enumerate(steps) if _is_program(step.block))
                steps[place] = replace(steps[place], text=f"{steps[place].text}\n{block.text}")
            elif ours:
                place = len(steps)
                steps.append(Step(block, block.text))
    return steps


def programs_of(session: str) -> list[str]:
    """Which of the programs that not every machine has are run by blocks of the session."""
    text = "\n".join(step.text for step in steps_of(session) if step.block.language == "bash")
    return [program for program in PROGRAMS if re.search(rf"(^|[|($;])\s*{program}\s", text, re.MULTILINE)]


def _is_program(block: Block) -> bool:
    return block.language == "python" and "pytest" not in block.marks


def names_of_sessions() -> set[str]:
    return {
        block.marks["session"] for document in documents() for block in blocks_of(document) if "session" in block.marks
    }


def missing_lines(expected: tuple[str, ...], printed: str) -> list[str]:
    """The lines of `expected` that do not occur in `printed`, in this order."""
    missing: list[str] = []
    lines = iter(printed.splitlines())
    for line in expected:
        pattern = re.compile(".*".join(re.escape(part.strip()) for part in line.split("...")))
        if line.strip() != "..." and not any(pattern.fullmatch(each.strip()) for each in lines):
            missing.append(line)
    return missing


def run_session(session: Session, directory: Path) -> None:
    """Raises AssertionError that names the block which failed, with what it printed."""
    steps = steps_of(session.name)
    script = [PREAMBLE, f"cd {shlex.quote(str(directory))}\n", session.prepare]
    for number, step in enumerate(steps):
        script.append(_command(number, step, directory))
    path = directory / "session.sh"
    path.write_text("".join(script), encoding="utf-8")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "KRAFT_", "PYSPARK_"))},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TREE": str(ROOT),
        **session.environment,
    }
    with (directory / "printed").open("wb") as printed:
        done = subprocess.run(
            ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", path],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            timeout=SECONDS_MAX,
        )
    outputs = {number: _read(directory / f"printed-{number}") for number in range(len(steps))}
    if done.returncode != 0:
        began = [number for number in outputs if (directory / f"printed-{number}").exists()]
        where = f"{steps[began[-1]].block.place} failed:\n{outputs[began[-1]][-3000:]}" if began else "preparing failed"
        raise AssertionError(f"{where}\n{_read(directory / 'printed')[-2000:]}")
    for number, step in enumerate(steps):
        missing = missing_lines(step.output, outputs[number])
        assert not missing, f"{step.block.place} does not print {missing} but\n{outputs[number]}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _command(number: int, step: Step, directory: Path) -> str:
    """The step as a part of the session's script. A block of bash runs in the session's own shell, so that variables
    and directories stay for the blocks behind it."""
    printed = shlex.quote(str(directory / f"printed-{number}"))
    text = step.text
    if step.block.language == "python":
        # Beside the session's directory: what lies next to the file must not be imported in place of packages.
        file = directory / f"block_{number}" / "test_block.py"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        runner = "python3 -m pytest -q -p no:cacheprovider " if "pytest" in step.block.marks else "python3 "
        text = f"{runner}{shlex.quote(str(file))}\n"
    awaited = step.block.marks.get("background")
    if awaited is None:
        return f"{{\n{text}}} >{printed} 2>&1\n"
    return (
        f"{{\n{text}}} >{printed} 2>&1 &\n"
        f"for attempt in $(seq {READY_SECONDS_MAX * 10}); do\n"
        f"  if grep -q {shlex.quote(awaited)} {printed}; then break; fi\n"
        f"  if [ $attempt = {READY_SECONDS_MAX * 10} ] || ! kill -0 $!; then exit 1; fi\n"
        "  sleep 0.1\n"
        "done\n"
    )
