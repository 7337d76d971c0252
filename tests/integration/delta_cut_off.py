"""`kraft spark` in a process that kills itself and its JVM with SIGKILL at a step of a micro-batch.

`python -m tests.integration.delta_cut_off FUNCTION WHEN CALL ARGUMENT...`: at the CALLth call of the FUNCTION of
kraft.spark.jobs.delta, before it or after it (WHEN). It has to be the first of its process group.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from kraft.cli.admin.app import main
from kraft.spark.jobs import delta


def plant(name: str, when: str, call: int) -> None:
    inner, calls = getattr(delta, name), iter(range(1, call + 1))

    def cut_off(*arguments: Any) -> Any:
        is_last = next(calls) == call
        if is_last and when == "before":
            os.killpg(0, signal.SIGKILL)
        found = inner(*arguments)
        if is_last:
            os.killpg(0, signal.SIGKILL)
        return found

    setattr(delta, name, cut_off)


if __name__ == "__main__":
    plant(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.exit(main(["spark", *sys.argv[4:]]))
