"""Figures as a page and as JSON: medians, ratios, and what was aimed at."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
from pathlib import Path

from tests.bench.measure import Figures

Aims = dict[str, tuple[str, float | None, str, bool]]
"""figure -> (what a reader calls it, aim for ours/Kafka or for our value alone, "ratio" or "value", whether more is
better)"""

ONE_NODE: Aims = {
    "produce_1k_mb_s": ("produce 1 KB, MB/s", 1.15, "ratio", True),
    "produce_100_by_two_mb_s": ("produce 100 B, two producers, MB/s", 1.1, "ratio", True),
    "produce_100_mb_s": ("produce 100 B, one producer, which is the limit, MB/s", None, "ratio", True),
    "consume_1k_mb_s": ("consume 1 KB, MB/s", 1.1, "ratio", True),
    "consume_100_mb_s": ("consume 100 B, MB/s", 1.1, "ratio", True),
    "produce_1k_cpu_s_per_gb": ("broker CPU s/GB, produce 1 KB", 0.8, "ratio", False),
    "consume_1k_cpu_s_per_gb": ("broker CPU s/GB, consume 1 KB", 0.8, "ratio", False),
    "produce_100_cpu_s_per_gb": ("broker CPU s/GB, produce 100 B", None, "ratio", False),
    "consume_100_cpu_s_per_gb": ("broker CPU s/GB, consume 100 B", None, "ratio", False),
    "one_at_a_time_p50_ms": ("one at a time, p50 ms", 1.0, "ratio", False),
    "one_at_a_time_p99_ms": ("one at a time, p99 ms", 1.0, "ratio", False),
    "list_offsets_p50_ms": ("ListOffsets beside 50 MB/s of produce, p50 ms", None, "value", False),
    "list_offsets_p99_ms": ("ListOffsets beside 50 MB/s of produce, p99 ms", 1.0, "value", False),
    "start_to_first_ack_s": ("process start to first acknowledged write, s", 0.2, "ratio", False),
    "kill_to_serving_s": ("kill -9 to serving again, s", 1.0, "value", False),
    "idle_rss_mb": ("idle memory, MB", 90.0, "value", False),
    "after_run_rss_mb": ("memory after the run, MB", 100.0, "value", False),
}


def rows(aims: Aims, figures: Figures, ours: str, theirs: str) -> list[dict[str, object]]:
    """One row a figure: medians of both, the ratio, the aim and whether it is met."""
    table = []
    for figure, (label, aim, kind, more) in aims.items():
        if figure not in figures.values:
            continue
        values = figures.values[figure]
        mine, other = statistics.median(values[ours]), statistics.median(values[theirs])
        ratio = mine / other if other else float("inf")
        compared = ratio if kind == "ratio" else mine
        met = None if aim is None else (compared >= aim if more else compared <= aim)
        table.append(
            {
                "figure": figure,
                "label": label,
                "ours": mine,
                "theirs": other,
                "ratio": ratio,
                "aim": aim,
                "kind": kind,
                "more": more,
                "met": met,
            }
        )
    return table


def page(table: list[dict[str, object]], heading: str, versions: dict[str, str]) -> str:
    ours, theirs = versions
    head = [
        f"# {versions[ours]} beside {versions[theirs]}, {datetime.date.today().isoformat()}",
        "",
        (
            f"Machine: {os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}, Python "
            f"{platform.python_version()}."
        ),
        heading,
        "",
        f"| figure | {ours} | {theirs} | ratio | aim | met |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(line, table), ""])


def line(row: dict[str, object]) -> str:
    sign = ">=" if row["more"] else "<="
    aim = "" if row["aim"] is None else f"{'ratio ' if row['kind'] == 'ratio' else ''}{sign} {row['aim']}"
    met = {True: "yes", False: "**no**", None: ""}[row["met"]]  # type: ignore[index]
    return f"| {row['label']} | {row['ours']:.3g} | {row['theirs']:.3g} | {row['ratio']:.2f} | {aim} | {met} |"


def write(
    directory: Path,
    topic: str,
    aims: Aims,
    figures: Figures,
    plan: dict[str, object],
    heading: str,
    versions: dict[str, str],
) -> tuple[str, bool]:
    """`<date>[-topic].md` and `.json` in `directory`; `versions` names ours, then theirs. Answers the page, and
    whether every aim is met."""
    ours, theirs = versions
    table = rows(aims, figures, ours, theirs)
    text = page(table, heading, versions)
    directory.mkdir(parents=True, exist_ok=True)
    stem = "-".join(filter(None, (datetime.date.today().isoformat(), topic)))
    (directory / f"{stem}.md").write_text(text)
    (directory / f"{stem}.json").write_text(
        json.dumps({"plan": plan, "rows": table, "values": figures.values}, indent=1) + "\n"
    )
    return text, all(row["met"] is not False for row in table)
