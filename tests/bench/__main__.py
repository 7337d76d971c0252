"""`python -m tests.bench`: measure, print, write docs/benchmarks/<date>.md and .json. Exit 0 when every aim is met,
1 when one is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench import measure, report
from tests.bench.measure import Figures, Plan
from tests.bench.probe import until_acknowledged, warm_up
from tests.bench.systems import KINDS, System

PARTS = ("starts", "idle", "list_offsets", "throughput", "latency")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    plan = (
        Plan(
            rounds=1,
            bytes_1k=20 << 20,
            bytes_100=10_000_000,
            latency_records=300,
            latency_rounds=1,
            restarts=1,
            idle_s=1.0,
        )
        if options.quick
        else Plan(rounds=options.rounds)
    )
    names, parts, figures = (
        options.systems.split(","),
        options.only.split(",") if options.only else list(PARTS),
        Figures(),
    )
    with tempfile.TemporaryDirectory(prefix="kraft-bench-", dir=options.directory) as place:

        def make(name: str, label: str) -> System:
            return KINDS[name](Path(place) / f"{name}-{label}")

        warm_up()
        if "starts" in parts:
            print("start and restart", flush=True)
            measure.starts(make, names, plan, figures)
        if set(parts) - {"starts"}:
            run_together([make(name, "load") for name in names], plan, parts, figures, Path(place))
    versions = {name: KINDS[name].version for name in names}
    text, met = report.write(Path(options.out), "", report.ONE_NODE, figures, vars(plan), heading(plan), versions)
    print(text)
    return 0 if met else 1


def heading(plan: Plan) -> str:
    return (
        "One node each, both running, rounds in turn. librdkafka as the client, acks=all, flush settings of "
        "the defaults, one partition, no compression;\n"
        f"medians of {plan.rounds} rounds or more. GB is 10^9 bytes. Kafka's directory is formatted before "
        "its clock starts; ours formats within it."
    )


def run_together(systems: list[System], plan: Plan, parts: list[str], figures: Figures, place: Path) -> None:
    """Everything that both systems do side by side."""
    try:
        for system in systems:
            system.prepare()
            system.launch()
        if "idle" in parts:
            for system in systems:
                until_acknowledged(system, "warm", create=True)
            measure.idle_memory(systems, plan, figures)
        if "list_offsets" in parts:
            measure.list_offsets(systems, plan, figures)
        if "throughput" in parts:
            measure.throughput(systems, plan, figures, place)
            measure.memory_after(systems, figures)
        if "latency" in parts:
            measure.latency(systems, plan, figures)
    finally:
        for system in systems:
            system.kill()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measure kraft and Apache Kafka side by side."
    )
    parser.add_argument(
        "--systems", default="kraft,kafka", help=f"two of {', '.join(KINDS)}; the first is compared with the second"
    )
    parser.add_argument("--rounds", type=int, default=3, help="throughput rounds (one more warms up)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--only", default="", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--directory", default=None, help="where the data goes (default: the temporary directory)")
    parser.add_argument("--out", default="docs/benchmarks", help="where the page and the JSON go")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
