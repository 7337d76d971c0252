"""The CPython releases on this machine: `python -m tests.pythons 12 13` prints a line `3.12 PATH` for each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MINORS = (11, 12, 13, 14)
SECONDS_MAX = 30


def find_python(minor: int) -> Path | None:
    """The newest Python 3.`minor` of pyenv, else the one on the PATH; None where no working one is found."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    installed = sorted(pyenv.glob(f"3.{minor}.*/bin/python3"), key=lambda path: _patch(path.parts[-3]))
    on_path = shutil.which(f"python3.{minor}")
    candidates = [*reversed(installed), *([Path(on_path)] if on_path else [])]
    return next((path for path in candidates if _works(path, minor)), None)


def _patch(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _works(python: Path, minor: int) -> bool:
    """Whether it is CPython 3.`minor` and can make virtual environments. A shim of pyenv may name what is not there."""
    is_other = f"sys.version_info[:2] != (3, {minor}) or sys.implementation.name != 'cpython'"
    code = f"import sys, ensurepip, venv; sys.exit({is_other})"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, timeout=SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def main(arguments: Sequence[str]) -> int:
    for minor in [int(argument) for argument in arguments] or MINORS:
        python = find_python(minor)
        print(
            f"3.{minor} {python}" if python else f"3.{minor}: not on this machine",
            file=sys.stdout if python else sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
