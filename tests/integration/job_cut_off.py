"""`kraft spark` in a process that kills itself and its JVM with SIGKILL at a step of a micro-batch.

`python -m tests.integration.job_cut_off MODULE FUNCTION WHEN CALL ARGUMENT...`: at the CALLth call of the FUNCTION by
this module of kraft.spark.jobs, before it or after it (WHEN). It has to be the first of its process group.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

from kraft.cli.admin.app import main


def plant(module: str, name: str, when: str, call: int) -> None:
    found_in = importlib.import_module(f"kraft.spark.jobs.{module}")
    inner, calls = getattr(found_in, name), iter(range(1, call + 1))

    def cut_off(*arguments: Any) -> Any:
        is_last = next(calls) == call
        if is_last and when == "before":
            os.killpg(0, signal.SIGKILL)
        found = inner(*arguments)
        if is_last:
            os.killpg(0, signal.SIGKILL)
        return found

    setattr(found_in, name, cut_off)


if __name__ == "__main__":
    plant(*sys.argv[1:4], int(sys.argv[4]))
    sys.exit(main(["spark", *sys.argv[5:]]))
