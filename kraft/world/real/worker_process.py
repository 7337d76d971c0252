"""The process that a `RealWorker` starts. It computes, and it writes and reads files for the work.

A frame is a length of four bytes and a pickle. On standard input, (work, argument) starts a piece of work, and None
requests its next result. On standard output, the process writes (what, value), where `what` is RESULT, RAISED or
FAILED. Until then it writes ALIVE every ALIVE_SECONDS. Only the node that started the process has the other ends of the
pipes. When standard input ends, the node has died or has cancelled the work: the process exits immediately, in the
middle of any step. If the process is frozen, the kernel kills it when the node dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final

from kraft.world.ports import StepEnd
from kraft.world.real.files import RealFileSystem

RESULT, RAISED, FAILED, ALIVE = "result", "raised", "failed", "alive"
ALIVE_SECONDS: Final = 1.0
LENGTH: Final = Struct(">I")
PR_SET_PDEATHSIG: Final = 1
"""prctl(2): the kernel sends a signal to this process when the thread that started it ends. It also kills a frozen
process."""
NICENESS: Final = 5
"""The niceness of this process, so that the node's requests take precedence if processors are busy."""
OOM_SCORE_ADJUSTMENT: Final = 500
"""Linux's out-of-memory killer kills this process before the node. Its work is then started again."""


def main(parent: int) -> None:
    """Serve until standard input ends, or the process `parent` does."""
    _end_with(parent)
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)  # They are for the node, whose end is ours.
    os.nice(NICENESS)
    with contextlib.suppress(OSError):  # Linux only, and some containers have it read-only.
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE_ADJUSTMENT))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What a library prints is no frame.
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, requests), daemon=True).start()
    work: Iterator[Any] = iter(())
    while True:
        request = requests.get()
        if request is None:
            advance(work, answers, ALIVE_SECONDS)
        else:
            function, argument = request
            work = iter(function(RealFileSystem(), argument))


def _end_with(parent: int) -> None:
    with contextlib.suppress(AttributeError, OSError):  # Linux only. Elsewhere the end of standard input has to do.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # It ended before it could be tied to.
        os._exit(0)


def _receive(requests: BinaryIO, into: queue.SimpleQueue[Any]) -> None:
    while True:
        head = requests.read(LENGTH.size)
        body = requests.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
        if not body:
            os._exit(0)
        into.put(pickle.loads(body))


def advance(work: Iterator[Any], answers: BinaryIO, alive_seconds: float) -> None:
    """Write the next result of `work`, or its failure. Until then, write a sign of life every `alive_seconds`."""
    alive_at = time.monotonic()

    def tell(what: str, value: object) -> None:
        answers.write(frame((what, value)))
        answers.flush()

    def step_ended(start: float, seconds: float) -> None:
        nonlocal alive_at
        now = time.monotonic()
        while True:
            if now - alive_at >= alive_seconds:
                tell(ALIVE, None)
                alive_at = now
            if now - start >= seconds:
                return
            time.sleep(min(start + seconds - now, alive_seconds))
            now = time.monotonic()

    tell(*_next_result(work, step_ended))


def _next_result(work: Iterator[Any], step_ended: Callable[[float, float], None]) -> tuple[str, Any]:
    try:
        start = time.monotonic()
        for found in work:
            if not isinstance(found, StepEnd):
                return RESULT, found
            step_ended(start, found.seconds)
            start = time.monotonic()
        return FAILED, "the work is at its end"
    except OSError as problem:
        return RAISED, problem
    except Exception:  # noqa: BLE001  # Whatever it is, the node lives on and tells it.
        return FAILED, traceback.format_exc()


def frame(message: object) -> bytes:
    """A message in the form that is sent through a pipe."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body
