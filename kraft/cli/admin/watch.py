"""`kraft --watch SECONDS ...`: repeats a command, on a cleared screen if there is one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from kraft.cli.admin.options import CLEAR, INTERRUPTED

OPTION = "--watch"
SECONDS_MIN = 0.5


def split_watch(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of the option, if it precedes the noun, and the command without it."""
    rest = list(arguments)
    for position, word in enumerate(rest):
        name, equals, value = word.partition("=")
        if name == OPTION:
            if equals:
                return value, [*rest[:position], *rest[position + 1 :]]
            return "".join(rest[position + 1 : position + 2]), [*rest[:position], *rest[position + 2 :]]
        if not word.startswith("-") and not (position and rest[position - 1] == "--profile"):
            break
    return None, rest


def watch(seconds_text: str, run: Callable[[], int]) -> int:
    """Repeat the command until interrupted, or until it reports wrong usage (2), which a repetition cannot fix. Returns
    the exit code."""
    try:
        seconds = float(seconds_text)
    except ValueError:
        seconds = 0.0
    if not SECONDS_MIN <= seconds < float("inf"):
        sys.stderr.write(
            f"kraft: {OPTION} {seconds_text}: the seconds between two runs must be {SECONDS_MIN} or more\n"
        )
        return 2
    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write(CLEAR)
            code = run()
            if code in (2, INTERRUPTED):
                return code
            sys.stdout.flush()
            time.sleep(seconds)
    except KeyboardInterrupt:
        return INTERRUPTED
