"""What a stranger does with a wheel: install it, start a node, create a topic, write and read; and check types."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.release.artifacts import CONSTRAINTS, ROOT, NotBuilt, run

READY_SECONDS_MAX = 60
ANY_PORT = ("--listen", "127.0.0.1:0", "--controller-listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
PROGRAM = ROOT / "tests/release/user_program.py"


def install(python: Path, directory: Path, wheels: Path, version: str, wheel: Path | None = None) -> Path:
    """Install kraft in a new virtual environment, with the newest dependencies that it allows.

    pip chooses among `wheels`, as it does among the files of an index, unless `wheel` is given. Returns the directory
    of the commands. Raises NotBuilt.
    """
    run(python, "-m", "venv", directory)
    commands = directory / "bin"
    chosen = str(wheel) if wheel else f"kraft-node=={version}"
    pip = (commands / "python", "-m", "pip", "install", "-q")
    # First ours alone, without an index: nobody else's package of this name can come in its place.
    run(*pip, "--no-index", "--no-deps", "--only-binary=:all:", "--find-links", wheels, chosen)
    run(*pip, f"kraft-node=={version}")
    run(commands / "python", "-m", "pip", "check")
    return commands


def use(commands: Path, directory: Path, version: str, compiled: bool) -> float:
    """Start a node, create a topic, write and read it, stop. Returns the seconds until the node was ready. Raises
    NotBuilt."""
    directory.mkdir()
    told = run(commands / "kraft", "--version", where=directory).strip()
    expected = f"kraft {version}, records read by {'machine code' if compiled else 'interpreter'}"
    if told != expected:
        raise NotBuilt(f"kraft --version prints {told!r}, not {expected!r}")
    with _node(commands, directory) as (bootstrap, seconds):
        kraft = f"'{commands}/kraft'"
        asked = {"KRAFT_BOOTSTRAP_SERVER": bootstrap}
        run(commands / "kraft", "topics", "create", "greetings", "--partitions", "3", where=directory, **asked)
        run("bash", "-c", f"echo 'hello, world' | {kraft} produce greetings", where=directory, **asked)
        read = run(commands / "kraft", "consume", "greetings", "--from-beginning", "--exit", where=directory, **asked)
        if "hello, world" not in read.splitlines():
            raise NotBuilt(f"kraft consume prints {read!r}")
    return seconds


@contextmanager
def _node(commands: Path, directory: Path) -> Iterator[tuple[str, float]]:
    begun = time.monotonic()
    with (directory / "log").open("wb") as log:
        command = [commands / "kraft-node", "--data-dir", directory / "data", *ANY_PORT]
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KRAFT_", "KAFKA_"))
        }
        with subprocess.Popen(command, cwd=directory, env=kept, stdout=subprocess.PIPE, stderr=log, text=True) as node:
            try:
                assert node.stdout is not None
                waiting, _, _ = select.select([node.stdout], [], [], READY_SECONDS_MAX)
                line = node.stdout.readline() if waiting else ""
                ready = re.search(r"^ready .*\bkafka=(\S+)", line)
                if ready is None:
                    raise NotBuilt(f"kraft-node prints {line!r}\n{(directory / 'log').read_text()[-2000:]}")
                yield ready[1], time.monotonic() - begun
            finally:
                node.send_signal(signal.SIGTERM)
            if node.wait(READY_SECONDS_MAX) != 0:
                raise NotBuilt(f"kraft-node ended with {node.returncode}\n{(directory / 'log').read_text()[-2000:]}")


def check_types(commands: Path, directory: Path) -> str:
    """Check a user's program with mypy, and with pyright where there is Node.js. Returns what was done. Raises
    NotBuilt."""
    directory.mkdir()
    program = shutil.copy(PROGRAM, directory)
    python = commands / "python"
    run(python, "-m", "pip", "install", "-q", "--constraint", CONSTRAINTS, "pytest", "mypy", "pyright")
    run(python, "-m", "mypy", "--strict", f"--config-file={os.devnull}", program, where=directory)
    if shutil.which("node") is None:
        return "mypy; pyright needs Node.js, which is not on this machine"
    (directory / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    run(commands / "pyright", "--pythonpath", python, program, where=directory)
    return "mypy, pyright"
