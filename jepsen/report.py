"""The report of a run, as a page that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from jepsen.checkers.verdict import Verdict


def write_report(history: Path, page: Path, verdict: Verdict) -> None:
    page.write_text(f"<pre>{verdict}</pre>", encoding="utf-8")
