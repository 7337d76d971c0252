"""`python -m tests.bench.cluster`: measure, print, write docs/benchmarks/<date>-three-nodes.md and .json. Exit 0:
every aim is met, 1: one is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench import report, transactors
from tests.bench.cluster import measure
from tests.bench.cluster.measure import Plan
from tests.bench.cluster.trios import MEMBERS, Trio
from tests.bench.measure import Figures

PARTS = ("starts", "throughput", "latency", "transactions", "failovers", "many")

AIMS: report.Aims = {
    "produce_1p_mb_s": ("produce 1 KB, 1 partition, MB/s", 2.0, "ratio", True),
    "produce_6p_mb_s": ("produce 1 KB, 6 partitions, MB/s", 1.5, "ratio", True),
    "produce_1p_cpu_s_per_gb": ("CPU s/GB of all three, 1 partition", None, "ratio", False),
    "produce_6p_cpu_s_per_gb": ("CPU s/GB of all three, 6 partitions", None, "ratio", False),
    "one_at_a_time_p50_ms": ("one at a time, p50 ms", 1.0, "ratio", False),
    "one_at_a_time_p99_ms": ("one at a time, p99 ms", 0.5, "ratio", False),
    "start_to_first_ack_s": ("three processes to the first acknowledged write, s", 0.25, "ratio", False),
    "after_run_rss_mb": ("memory of all three, MB", 300.0, "value", False),
    "gap_leader_killed_s": ("kill -9 of the leader: longest gap, s", 1.0, "value", False),
    "gap_leader_and_controller_killed_s": ("the same when it is the active controller, s", 2.0, "value", False),
    "gap_leader_stopped_s": ("controlled shutdown of the leader: longest gap, s", 0.2, "value", False),
    "many_created_and_led_s": ("9,000 partitions created and led, s", 15.0, "value", False),
    "many_failed_over_s": ("their fail-over after a kill -9, s", 3.0, "value", False),
    "many_rss_mb": ("memory of the two that are left, MB", None, "value", False),
    **transactors.aims(),
}


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    plan = (
        Plan(
            rounds=1,
            bytes_a_round=8 << 20,
            latency_records=200,
            transaction_seconds=1.0,
            starts=1,
            failovers=1,
            many_partitions=90,
        )
        if options.quick
        else Plan()
    )
    names, parts, figures = (
        options.systems.split(","),
        options.only.split(",") if options.only else list(PARTS),
        Figures(),
    )
    with tempfile.TemporaryDirectory(prefix="kraft-bench-", dir=options.directory) as place:
        make = measure.place_of(place)
        if "starts" in parts:
            measure.starts(make, names, plan, figures)
        if {"throughput", "latency", "transactions", "failovers"} & set(parts):
            side_by_side([make(name, "load") for name in names], plan, parts, figures, Path(place))
        if "many" in parts:
            measure.many_partitions(make, names, plan, figures)
    text, met = report.write(
        Path(options.out),
        "three-nodes",
        AIMS,
        figures,
        vars(plan),
        heading(plan),
        {name: MEMBERS[name].version for name in names},
    )
    print(text)
    return 0 if met else 1


def side_by_side(trios: list[Trio], plan: Plan, parts: list[str], figures: Figures, place: Path) -> None:
    """Both clusters run; rounds in turn."""
    try:
        for cluster in trios:
            cluster.prepare()
            cluster.launch()
            measure.first_acknowledged(cluster, "warm")
        if "throughput" in parts:
            measure.throughput(trios, plan, figures, place)
        if "latency" in parts:
            measure.latency(trios, plan, figures)
        if "transactions" in parts:
            measure.transactions(trios, plan, figures)
        if "failovers" in parts:
            measure.failovers(trios, plan, figures)
    finally:
        for cluster in trios:
            cluster.kill()


def heading(plan: Plan) -> str:
    return (
        "Three nodes each, broker and controller, on one machine; both clusters run and take their rounds in "
        "turn. Only\nstarts and the benchmark of many partitions run one cluster at a time.\n"
        "librdkafka as the client, RF 3, min ISR 2, acks=all, flush settings of the defaults, no compression; "
        "medians of\n"
        f"{plan.rounds} rounds, {plan.failovers} for fail-overs. GB is 10^9 bytes. Kafka's directories are "
        "formatted before its clock starts; ours within it."
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.cluster",
        description="Measure three nodes of kraft and of Apache Kafka side by side.",
    )
    parser.add_argument(
        "--systems", default="kraft,kafka", help=f"two of {', '.join(MEMBERS)}; the first is compared with the second"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--only", default="", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--directory", default=None, help="where the data goes (default: the temporary directory)")
    parser.add_argument("--out", default="docs/benchmarks", help="where the page and the JSON go")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
