"""A node's output to its terminal: log events to stderr, one ready line to stdout, and hints on what to do next."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable, Sequence

from kraft.common.config.endpoints import Endpoint
from kraft.common.logging import LEVELS, LogLine, level_of, render_console, render_json


def stderr_sink(log_format: str, level: str) -> Callable[[LogLine], None]:
    """A sink that renders events at least as severe as `level`. A closed stderr ends only the output."""
    least = LEVELS[level.lower()]
    stream = sys.stderr
    colour = log_format.lower() == "console" and stream.isatty()

    def render(line: LogLine) -> str:
        now_ms = time.time_ns() // 1_000_000
        return (
            render_json(line, now_ms) if log_format.lower() == "json" else render_console(line, now_ms, colour=colour)
        )

    def sink(line: LogLine) -> None:
        if level_of(line) < least:
            return
        try:
            stream.write(render(line) + "\n")
            stream.flush()
        except (OSError, ValueError):  # The reader has gone, or the stream is closed: the node continues.
            return

    return sink


def process_age_ms() -> int:
    """Milliseconds since the start of the process, from the kernel (in steps of 10 ms); 0 if unknown."""
    try:
        with open("/proc/self/stat", encoding="ascii") as file:
            started_ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/uptime", encoding="ascii") as file:
            uptime = float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return max(0, round((uptime - started_ticks / 100) * 1000))


def ready_line(
    node_id: int,
    roles: Sequence[str],
    broker: Endpoint | None,
    controller: Endpoint | None,
    admin: str | None,
    cluster_id: str,
    age_ms: int,
) -> str:
    """The one line on stdout. Programs parse it, so its words are a contract."""
    words = [f"ready node={node_id} roles={','.join(roles)}"]
    if broker is not None:
        words.append(f"kafka={broker.address}")
    if controller is not None:
        words.append(f"controller={controller.address}")
    words.append(f"admin={admin or 'off'}")
    words.append(f"cluster={cluster_id} ms={age_ms}")
    return " ".join(words)


def print_ready(line: str, broker: Endpoint | None, admin: str | None) -> None:
    """Print the ready line; on a terminal also commands to try next."""
    sys.stdout.write(line + "\n")
    if sys.stdout.isatty() and broker is not None:
        target = "" if broker.address == "127.0.0.1:9092" else f" --bootstrap-server {broker.address}"
        sys.stdout.write(
            f"\n  kraft topics create hello --partitions 3{target}\n  echo 'hello, world' | kraft produce "
            f"hello{target}\n"
        )
        sys.stdout.write(
            f"  open {admin}\n\n" if admin is not None else f"  kraft consume hello --from-beginning{target}\n\n"
        )
    sys.stdout.flush()


def report_problems(problems: Sequence[str]) -> None:
    """Print every problem of a configuration on stderr, in one report."""
    count = len(problems)
    sys.stderr.write(f"kraft-node: unusable configuration, {count} problem{'s' if count != 1 else ''}:\n")
    for problem in problems:
        sys.stderr.write(f"  {problem}\n")
    sys.stderr.flush()


def address_problem(option: str, address: object, problem: OSError) -> str:
    """The message for a listener that cannot be opened. It begins with the option that must be changed."""
    if problem.errno == errno.EADDRINUSE:
        return f"{option}: {address} is in use by another process; choose another port, or 0 to have one picked"
    return f"{option}: cannot listen on {address}: {problem.strerror}"


def refuse_system(program: str) -> bool:
    """Whether the program does not run on this operating system. Prints a message then."""
    system: str = sys.platform
    if system != "win32":
        return False
    sys.stderr.write(
        f"{program}: Windows is not supported: kraft uses files, locks and sockets of Linux. The Windows "
        "Subsystem for Linux runs it (https://learn.microsoft.com/windows/wsl), and so does a container.\n"
    )
    return True
