"""`python -m tests.vectors record|compare BROKER CONTROLLER [MODULE]`."""

import sys
import time

from tests.vectors.compare import compare, record
from tests.vectors.runner import Target


def main(arguments: list[str]) -> int:
    if len(arguments) not in (3, 4) or arguments[0] not in ("record", "compare"):
        print(__doc__, file=sys.stderr)
        return 2
    target, only, begun = Target.parse(arguments[1], arguments[2]), arguments[3] if len(arguments) == 4 else "", time.monotonic()
    if arguments[0] == "record":
        print(f"vectors: {record(target, only)} runs recorded in {time.monotonic() - begun:.1f} s")
        return 0
    report = compare(target, only)
    for mismatch in report.unexplained:
        print(mismatch)
    print(report.summary(), f"in {time.monotonic() - begun:.1f} s")
    return 1 if report.unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
