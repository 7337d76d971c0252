"""`python -m kraft._tools.compile_modules`: make machine code of the modules that `kraft.common.compiled` looks for.

mypyc translates them to C, and a C compiler compiles that, in about four seconds. If either is missing or fails, a line
is printed and the modules are interpreted. Machine code of the present sources is not compiled again, and that of other
sources is removed. KRAFT_COMPILE=0 compiles nothing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from kraft.common.compiled import compiled_path, module_name

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "kraft/protocol/records/fast_path.py",)
SECONDS_MAX = 120
SHOWN_CHARACTERS = 600


class NotCompiled(Exception):
    """Raised when the modules cannot be compiled; the message says why."""


def main() -> int:
    try:
        compile_all()
    except NotCompiled as problem:
        print(f"kraft: pure Python, without machine code: {problem}", file=sys.stderr)
    return 0


def compile_all() -> list[Path]:
    """Compile all modules and return the paths of the machine code. Raises NotCompiled."""
    if not is_wanted():
        raise NotCompiled("KRAFT_COMPILE=0")
    try:
        return [compile_module(source) for source in SOURCES]
    except OSError as problem:  # The tree cannot be written to, or there is no room.
        raise NotCompiled(str(problem)) from problem


def is_wanted() -> bool:
    return os.environ.get("KRAFT_COMPILE") != "0"


def can_compile() -> bool:
    """Whether this machine has a C compiler and Python's headers, which mypyc needs."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    header = Path(sysconfig.get_path("include"), "Python.h")
    return shutil.which(compiler) is not None and header.exists()


def compile_module(source: Path) -> Path:
    """Compile `source` and return the path of the machine code beside it. Raises NotCompiled, OSError."""
    content = source.read_bytes()
    target = compiled_path(source, content)
    for other in source.parent.glob(f"_{source.stem}_*{EXTENSION_SUFFIXES[0]}"):
        if other != target:
            other.unlink(missing_ok=True)
    if target.exists():
        return target
    if not can_compile():
        raise NotCompiled("no C compiler, or no headers of Python")
    if importlib.util.find_spec("mypyc") is None or importlib.util.find_spec("setuptools") is None:
        raise NotCompiled("mypy and setuptools are not installed")
    with tempfile.TemporaryDirectory(prefix="kraft-compile-") as place:
        made = _run_mypyc(content, module_name(target), Path(place))
        # No process sees a partly written file, even if several compile the same module at the same time.
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f"{target.stem}.", delete=False) as copy:
            copy.write(made.read_bytes())
        Path(copy.name).chmod(0o644)
        Path(copy.name).replace(target)
    return target


def _run_mypyc(content: bytes, name: str, place: Path) -> Path:
    module = place / f"{name}.py"
    module.write_bytes(content)
    environment = {**os.environ, "MYPY_CACHE_DIR": str(place / "cache"), "MYPYC_DEBUG_LEVEL": "0"}
    command = [sys.executable, "-m", "mypyc", module.name]
    try:
        run = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired as problem:
        raise NotCompiled(str(problem)) from problem
    made = place / f"{name}{EXTENSION_SUFFIXES[0]}"
    if run.returncode != 0 or not made.exists():
        raise NotCompiled(f"mypyc fails: {(run.stdout + run.stderr)[-SHOWN_CHARACTERS:]}")
    return made


if __name__ == "__main__":
    sys.exit(main())
