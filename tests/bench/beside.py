"""The run of a benchmark whose parts are measured on both systems in turn, while both run."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import report
from tests.bench.measure import Figures, in_turn
from tests.bench.probe import until_acknowledged, warm_up
from tests.bench.systems import KINDS, System

Measure = Callable[[System, int, Figures, float], None]
"""Measures one round of a system for so many seconds. Round 0 warms up, and adds no figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark. `name` is that of its page, `module` that of its program, `heading` makes the text above its table
    from the number of rounds and the seconds of each."""

    name: str
    module: str
    doc: str | None
    aims: report.Aims
    parts: Mapping[str, Measure]
    seconds: float
    heading: Callable[[int, float], str]


def run(benchmark: Benchmark, arguments: list[str]) -> int:
    """Measure, and write the page. Returns the exit code: 1 if an aim is missed."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{benchmark.module}", description=benchmark.doc)
    parser.add_argument("--systems", default="kraft,kafka", help="the first is compared with the second")
    parser.add_argument("--rounds", type=int, default=3, help="one more warms up")
    parser.add_argument("--seconds", type=float, default=benchmark.seconds, help="of each round")
    parser.add_argument("--only", default="", help=f"some of {','.join(benchmark.parts)}")
    parser.add_argument("--directory", default=None, help="where the data goes (default: the temporary directory)")
    parser.add_argument("--out", default="docs/benchmarks", help="where the page and the JSON go")
    options = parser.parse_args(arguments)
    names, figures = options.systems.split(","), Figures()
    with tempfile.TemporaryDirectory(prefix="kraft-bench-", dir=options.directory) as directory:
        systems: list[System] = [KINDS[name](Path(directory) / name) for name in names]
        warm_up()
        try:
            for system in systems:
                system.prepare()
                system.launch()
                until_acknowledged(system, "first", create=True)
            for part in options.only.split(",") if options.only else benchmark.parts:
                measure = benchmark.parts[part]
                in_turn(
                    systems,
                    options.rounds + 1,
                    lambda system, number, measure=measure: measure(system, number, figures, options.seconds),
                )
        finally:
            for system in systems:
                system.kill()
    text, met = report.write(
        Path(options.out),
        benchmark.name,
        benchmark.aims,
        figures,
        {"rounds": options.rounds},
        benchmark.heading(options.rounds, options.seconds),
        {name: KINDS[name].version for name in names},
    )
    print(text)
    return 0 if met else 1
