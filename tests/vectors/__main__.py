"""`python -m tests.vectors record|compare [--module NAME] [BROKER CONTROLLER]`. Without addresses an empty Apache
Kafka, or a node of ours, is started."""

import argparse
import sys
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tests.vectors.compare import compare, record, selected
from tests.vectors.denied import matrix
from tests.vectors.runner import Target
from tests.vectors.targets import apache_kafka, our_node

DIFFERENCES_TOLD_MAX = 40
DENIED = "denied"
"""The module that has a cluster of its own, with logins."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.vectors", description="Record what Apache Kafka answers, or compare a target with it."
    )
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("addresses", nargs="*", help="BROKER CONTROLLER, both HOST:PORT, of an empty target")
    parser.add_argument("--module", default="", help="only this module, or those whose name contains this")
    options = parser.parse_args(arguments)
    if len(options.addresses) not in (0, 2):
        parser.error("give both addresses or none")
    with tempfile.TemporaryDirectory(prefix="kraft-vectors-") as place:
        status = 0
        if not options.addresses and options.module in ("", DENIED):
            status = act_denied(options.action, Path(place) / DENIED)
        if options.module == DENIED:
            return status
        with target_of(options, Path(place)) as target:
            return act(options.action, target, options.module) or status


def target_of(options: argparse.Namespace, place: Path) -> AbstractContextManager[Target]:
    if options.addresses:
        return nullcontext(Target.parse(*options.addresses))
    return apache_kafka(place) if options.action == "record" else our_node(place)


def act_denied(action: str, place: Path) -> int:
    if action == "record":
        print(f"vectors: {matrix.record(place)} answers to those who lack rights recorded")
        return 0
    differences = matrix.compare(place)
    print("\n".join(differences[:DIFFERENCES_TOLD_MAX]))
    print(f"vectors: {len(differences)} answers to those who lack rights differ")
    return 1 if differences else 0


def act(action: str, target: Target, module: str) -> int:
    begun = time.monotonic()
    if action == "record":
        print(f"vectors: {record(target, module)} runs recorded in {time.monotonic() - begun:.1f} s")
        return 0
    report = compare(target, selected(module))
    for mismatch in report.unexplained:
        print(mismatch)
    print(report.summary(), f"in {time.monotonic() - begun:.1f} s")
    return 1 if report.unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
