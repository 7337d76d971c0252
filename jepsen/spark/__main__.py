"""`python -m jepsen.spark --rounds 20`: run rounds one after another on one cluster, then rounds of real losses, then
queries whose sink writes exactly once. The last lines print the counts.

The exit code is 0 if all is well, 1 after a violation, 2 for an invalid run.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from jepsen.spark.checks import Verdict
from jepsen.spark.loss import RETENTION_CHECK_MS, LossRound
from jepsen.spark.once_round import VARIANTS, OnceRound
from jepsen.spark.round import FAULTS, Round
from jepsen.spark.spark_cluster import SparkCluster
from jepsen.three_nodes import ThreeNodes
from kraft.testing.node_process import NodeFailed

SOURCES = ("kraft", "kafka")
OK, VIOLATION, INVALID = 0, 1, 2
ONCE_ROWS, ONCE_PADDING = 30_000, 1000
SETTINGS = ("--set", f"log.retention.check.interval.ms={RETENTION_CHECK_MS}")

TWO_PHASE = ("--set", "transaction.two.phase.commit.enable=true")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m jepsen.spark", description="Spark over a replicated topic while nodes and Spark are killed."
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--first", type=int, default=1, help="number of the first round: it seeds the order of the faults"
    )
    parser.add_argument("--source", choices=(*SOURCES, "both"), default="both")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--losses", type=int, default=1, help="rounds of losses that are real, after the others")
    parser.add_argument(
        "--once",
        default=",".join(VARIANTS),
        help="how queries whose sink writes once say what they do; a round for each, after the others",
    )
    parser.add_argument(
        "--two-phase", action="store_true", help="nodes serve two-phase commit: tasks of the sink write for themselves"
    )
    parser.add_argument(
        "--master", default="local[2,8]", help="Spark's master; the second number lets tasks be tried again"
    )
    parser.add_argument("--keep", type=Path, default=None, help="keep everything in this directory")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INVALID))  # What was started is stopped on the way out.
    sources = SOURCES if options.source == "both" else (options.source,)
    if options.keep is not None:
        return rounds(options, sources, options.keep)
    with tempfile.TemporaryDirectory(prefix="kraft-spark-harness-") as place:
        return rounds(options, sources, Path(place))


def rounds(options: argparse.Namespace, sources: Sequence[str], place: Path) -> int:
    with ThreeNodes(place / "nodes", *SETTINGS, *(TWO_PHASE if options.two_phase else ())) as cluster:
        told = Told(cluster)
        for number in range(options.first, options.first + options.rounds):
            one = Round(cluster, place, number, sources, options.faults.split(","), options.master)
            told.of(f"round {number}", one.run, one.bites)
        done = told.done
        for number in range(options.first, options.first + options.losses):
            for source in sources:
                loss = LossRound(cluster, place, number, source)
                told.of(f"loss {number}", lambda loss=loss: [loss.run()], loss.bites)  # type: ignore[misc]
        for variant in filter(None, options.once.split(",") if "kraft" in sources else ()):
            with SparkCluster(place / f"spark-{variant}") as spark:
                once = OnceRound(
                    cluster.bootstrap, cluster.restart, spark, place, variant, ONCE_ROWS, ONCE_PADDING, replicas=3
                )
                told.of(f"once {variant}", once.run, once.bites)
    for source in sources:
        mine = [each for each in told.verdicts if each.source == source]
        print(
            (
                f"spark-harness: {source} {done} rounds, {sum(each.lost for each in mine)} lost, "
                f"{sum(each.duplicated for each in mine)} duplicated"
            ),
            flush=True,
        )
    if not all(each.ok for each in told.verdicts):
        return VIOLATION
    return INVALID if told.invalid or not told.done else OK


class Told:
    """Runs rounds on the cluster and prints the result of each."""

    def __init__(self, cluster: ThreeNodes) -> None:
        self.cluster = cluster
        self.verdicts: list[Verdict] = []
        self.done = 0
        self.invalid = 0

    def of(self, name: str, run: Callable[[], list[Verdict]], bites: list[str]) -> None:
        try:
            for node in self.cluster.nodes.values():
                if node.process is None or node.process.poll() is not None:
                    node.start()  # A round before ended while it was down.
            found = run()
        except (AssertionError, TimeoutError, NodeFailed) as problem:
            self.invalid += 1
            print(f"{name}: invalid: {problem}", flush=True)
            return
        self.done += 1
        self.verdicts += found
        print(f"{name}: {'; '.join(bites)}", flush=True)
        for each in found:
            counts = f"  {each.source}: {each.checked} checked, {each.lost} lost, {each.duplicated} duplicated"
            print(counts, *each.violations, *each.notes, sep="\n    ", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
