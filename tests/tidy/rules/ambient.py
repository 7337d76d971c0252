"""Nothing ambient: time, chance, disk, network, threads and the environment come in through the world
(kraft/world/ports.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.names import imports, is_at_or_under, nodes, uses
from tests.tidy.source import Module, Violation

# Standard library modules whose very import means reaching past the world's ports.
MODULES = {
    "time": "world.clock",
    "sched": "world.clock",
    "uuid": "world.random.uuid",
    "secrets": "world.random",
    "threading": "world.threads",
    "_thread": "world.threads",
    "concurrent": "world.threads",
    "multiprocessing": "world.threads",
    "queue": "trio memory channels",
    "asyncio": "trio",
    "socket": "world.network",
    "socketserver": "world.network",
    "select": "world.network",
    "selectors": "world.network",
    "ssl": "contexts are made by the composition root",
    "http.client": "world.network",
    "http.server": "world.network",
    "urllib.request": "world.network",
    "subprocess": "the composition root",
    "signal": "the composition root",
    "os": "world.files, world.environment (posixpath joins paths)",
    "shutil": "world.files",
    "tempfile": "world.files",
    "fcntl": "world.files.lock",
    "mmap": "world.files",
    "glob": "world.files.list_directory",
    "fileinput": "world.files",
    "linecache": "world.files",
    "dbm": "world.files",
    "shelve": "world.files",
    "sqlite3": "world.files",
    "resource": "the composition root",
    "platform": "the composition root",
    "locale": "the composition root",
    "getpass": "the composition root",
    "logging": "the node's own logger over world.log_sink",
    "weakref": "explicit ownership: collection has no place in a replay",
    "gc": "the composition root",
    "atexit": "the composition root",
}

# Single names that do the same from modules that are otherwise harmless.
NAMES = {
    "pathlib.Path": "str paths and world.files (PurePosixPath is fine)",
    "pathlib.PosixPath": "str paths and world.files",
    "posixpath.exists": "world.files",
    "posixpath.isfile": "world.files",
    "posixpath.isdir": "world.files",
    "posixpath.getsize": "world.files",
    "posixpath.getmtime": "world.files",
    "posixpath.realpath": "world.files",
    "posixpath.abspath": "the composition root makes paths absolute",
    "posixpath.expanduser": "the composition root makes paths absolute",
    "io.open": "world.files",
    "io.FileIO": "world.files",
    "io.open_code": "world.files",
    "datetime.datetime.now": "world.clock.wall_ms",
    "datetime.datetime.utcnow": "world.clock.wall_ms",
    "datetime.datetime.today": "world.clock.wall_ms",
    "datetime.date.today": "world.clock.wall_ms",
    "sys.stdout": "the composition root writes to the terminal",
    "sys.stderr": "world.log_sink",
    "sys.stdin": "the composition root",
    "sys.argv": "the composition root",
    "sys.exit": "the composition root decides when a process ends",
    "trio.current_time": "world.clock.now",
    "trio.sleep": "world.clock.sleep",
    "trio.sleep_until": "world.clock.sleep_until",
    "trio.move_on_after": "world.clock.move_on_after",
    "trio.move_on_at": "world.clock.move_on_at",
    "trio.fail_after": "world.clock.move_on_after",
    "trio.fail_at": "world.clock.move_on_at",
    "trio.to_thread": "world.threads",
    "trio.from_thread": "world.threads",
    "trio.CapacityLimiter": "world.threads (trio.Semaphore counts in a loop)",
    "trio.open_signal_receiver": "the composition root",
    "trio.run": "the composition root",
    "trio.run_process": "the composition root",
    "trio.Process": "the composition root",
    "trio.socket": "world.network",
    "trio.SocketStream": "world.network",
    "trio.SocketListener": "world.network",
    "trio.SSLStream": "world.network",
    "trio.SSLListener": "world.network",
    "trio.serve_tcp": "world.network",
    "trio.serve_listeners": "world.network",
    "trio.open_tcp_stream": "world.network",
    "trio.open_tcp_listeners": "world.network",
    "trio.open_unix_socket": "world.network",
    "trio.open_ssl_over_tcp_stream": "world.network",
    "trio.open_ssl_over_tcp_listeners": "world.network",
    "trio.open_file": "world.files",
    "trio.wrap_file": "world.files",
    "trio.Path": "world.files",
    "trio.testing": "tests only",
    "trio.lowlevel.wait_readable": "Stream.wait_readable",
    "trio.lowlevel.wait_writable": "Stream.wait_writable",
    "trio.lowlevel.notify_closing": "Stream.close",
    "trio.lowlevel.open_process": "the composition root",
    "trio.lowlevel.current_clock": "world.clock",
    "trio.lowlevel.start_guest_run": "the composition root",
    "trio.lowlevel.start_thread_soon": "world.threads",
    "trio.lowlevel.current_statistics": "nothing a replay can repeat",
}

BUILTINS = {
    "open": "world.files.open",
    "input": "the composition root",
    "print": "world.log_sink, or the composition root's terminal",
    "breakpoint": "nothing that ships",
    "exit": "the composition root",
    "quit": "the composition root",
}


def ambient_modules(module: Module) -> Iterator[Violation]:
    for found in imports(module.tree):
        for name, instead in MODULES.items():
            if is_at_or_under(found.dotted, name):
                yield Violation(module.path, found.line, "ambient module", name, f"use {instead}")


def chance(module: Module) -> Iterator[Violation]:
    """`random.Random` is a type to annotate with; made, called for, or used any other way it is chance from nowhere."""
    advice = "take a stream of world.random as an argument"
    called = {id(node.func) for node in nodes(module.tree) if isinstance(node, ast.Call)}
    for use in uses(module):
        if is_at_or_under(use.dotted, "random") and (use.dotted != "random.Random" or id(use.node) in called):
            yield Violation(module.path, use.node.lineno, "chance", use.dotted, advice)


def ambient_names(module: Module) -> Iterator[Violation]:
    seen: set[tuple[int, str]] = set()
    found = [(each.dotted, each.line) for each in imports(module.tree)] + [
        (each.dotted, each.node.lineno) for each in uses(module)
    ]
    for dotted, line in found:
        for name, instead in NAMES.items():
            if is_at_or_under(dotted, name) and (line, name) not in seen:
                seen.add((line, name))
                yield Violation(module.path, line, "ambient name", name, f"use {instead}")
    for node in nodes(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            yield Violation(module.path, node.lineno, "ambient name", node.func.id, f"use {BUILTINS[node.func.id]}")


def trio_deadlines(module: Module) -> Iterator[Violation]:
    """`trio.CancelScope` is welcome for cancelling; its deadline counts on trio's clock, which is not the node's."""
    advice = "use world.clock.move_on_at: trio's clock is not the node's"
    for use in uses(module):
        call = _call_of(module, use.node) if use.dotted == "trio.CancelScope" else None
        if call and (call.args or any(word.arg in ("deadline", "relative_deadline") for word in call.keywords)):
            yield Violation(module.path, call.lineno, "trio deadline", "CancelScope", advice)
    for node in nodes(module.tree):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AugAssign | ast.AnnAssign)
            else []
        )
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and target.attr in ("deadline", "relative_deadline")
                and "scope" in ast.unparse(target.value)
            ):
                yield Violation(module.path, node.lineno, "trio deadline", ast.unparse(target), advice)


def _call_of(module: Module, function: ast.expr) -> ast.Call | None:
    return next((node for node in nodes(module.tree) if isinstance(node, ast.Call) and node.func is function), None)


def hidden_clocks(module: Module) -> Iterator[Violation]:
    """Library calls that quietly read the clock or the local time zone unless told not to."""
    for use in uses(module):
        if use.dotted in ("gzip.compress", "gzip.GzipFile", "gzip.open"):
            call = _call_of(module, use.node)
            if call is None or not any(word.arg == "mtime" for word in call.keywords):
                yield Violation(
                    module.path,
                    use.node.lineno,
                    "hidden clock",
                    use.dotted,
                    "pass mtime=0: equal inputs give equal bytes",
                )
        if use.dotted in ("datetime.datetime.fromtimestamp", "datetime.date.fromtimestamp"):
            call = _call_of(module, use.node)
            if call is None or len(call.args) + len(call.keywords) < 2:
                yield Violation(
                    module.path,
                    use.node.lineno,
                    "hidden clock",
                    use.dotted,
                    "pass a time zone: the machine's is ambient",
                )
