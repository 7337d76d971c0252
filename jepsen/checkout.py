"""The commit of this checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def commit(*, short: bool = False) -> str:
    """The checked-out commit; empty if this is no repository or git is not installed."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(ROOT), "rev-parse", *(["--short"] if short else []), "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
