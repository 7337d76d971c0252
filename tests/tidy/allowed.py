"""Where a rule does not hold, and why. A prefix ending in "/" is a folder; `subjects` are what the rule reports ("*"
any)."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch

from tests.tidy.source import Violation


@dataclass(frozen=True, slots=True)
class Allowed:
    where: str
    rule: str
    subjects: tuple[str, ...]
    reason: str

    def covers(self, violation: Violation) -> bool:
        inside = violation.path.startswith(self.where) if self.where.endswith("/") else violation.path == self.where
        return (
            inside
            and violation.rule == self.rule
            and any(fnmatch(violation.subject, subject) for subject in self.subjects)
        )


ANY = ("*",)
PORTS = "The ports' implementations are where ambient things end."
PROCESS = (
    "The composition root owns the process, its terminal, signals and trio.run; the admin command is a client "
    "with a loop of its own."
)
PROCESS_MODULES = (
    "os",
    "signal",
    "time",
    "gc",
    "threading",
    "ssl",
    "tempfile",
    "shutil",
    "resource",
    "socket",
    "subprocess",
    "selectors",
    "http.client",
)
USERS_TESTS = "Starts and breaks real processes for users' tests."
PROOF = "Composes simulated nodes and breaks them; no part of the product."
PROGRAMS = "Runs in programs of others, never in a node: it composes their client's world, for asyncio in a thread."
SPARK = "Runs in Spark's processes, never in a node."
GENERATOR = "Runs on a developer's machine, never in a node."

# Folders at the edge of the process: they compose nodes or run outside them.
ROOTS = (
    Allowed("kraft/world/", "ambient module", ANY, PORTS),
    Allowed("kraft/world/", "chance", ANY, PORTS),
    Allowed("kraft/world/", "ambient name", ANY, PORTS),
    Allowed("kraft/world/", "trio deadline", ANY, PORTS),
    Allowed("kraft/world/", "real world", ANY, PORTS),
    Allowed("kraft/cli/", "ambient module", PROCESS_MODULES, PROCESS),
    Allowed("kraft/cli/", "chance", ANY, PROCESS),
    Allowed("kraft/cli/", "ambient name", ANY, PROCESS),
    Allowed("kraft/cli/", "real world", ANY, PROCESS),
    Allowed("kraft/clients/", "ambient module", ("asyncio", "threading"), PROGRAMS),
    Allowed("kraft/clients/", "ambient name", ("trio.run",), PROGRAMS),
    Allowed("kraft/rpc_client/client_keys.py", "ambient name", ("pathlib.Path",), PROGRAMS),
    Allowed("kraft/clients/", "async generator", ("_each",), PROGRAMS),
    Allowed("kraft/clients/", "real world", ANY, PROGRAMS),
    Allowed("kraft/testing/", "ambient module", ANY, USERS_TESTS),
    Allowed("kraft/testing/", "chance", ANY, USERS_TESTS),
    Allowed("kraft/testing/", "ambient name", ANY, USERS_TESTS),
    Allowed("kraft/testing/", "trio deadline", ANY, USERS_TESTS),
    Allowed("kraft/testing/", "real world", ANY, USERS_TESTS),
    Allowed("jepsen/simulation/", "ambient module", ANY, PROOF),
    Allowed("jepsen/simulation/", "chance", ANY, PROOF),
    Allowed("jepsen/simulation/", "ambient name", ANY, PROOF),
    Allowed("jepsen/simulation/", "trio deadline", ANY, PROOF),
    Allowed("jepsen/simulation/", "real world", ANY, PROOF),
    Allowed("jepsen/checker/", "ambient module", ANY, PROOF),
    Allowed(
        "api/",
        "async generator",
        ANY,
        "FastAPI streams with them, on asyncio in a thread of its own, outside every node.",
    ),
    Allowed("kraft/spark/", "ambient module", ANY, SPARK),
    Allowed("kraft/spark/", "chance", ANY, SPARK),
    Allowed("kraft/spark/", "ambient name", ANY, SPARK),
    Allowed("kraft/spark/", "unordered iteration", ANY, SPARK),
    Allowed("kraft/spark/source/share_member.py", "real world", ANY, SPARK),
    Allowed("kraft/_tools/", "ambient module", ANY, GENERATOR),
    Allowed("kraft/_tools/", "chance", ANY, GENERATOR),
    Allowed("kraft/_tools/", "ambient name", ANY, GENERATOR),
    Allowed("kraft/_tools/", "hidden clock", ANY, GENERATOR),
    Allowed("kraft/_tools/", "module state", ANY, GENERATOR),
)

# Single files, each with what exactly it needs. An entry that nothing uses any more fails the test.
FILES: tuple[Allowed, ...] = (
    Allowed(
        "kraft/protocol/records/compression.py",
        "module state",
        ("_idle_zstd",),
        "Decompressors between two calls: what a call returns does not depend on which one it gets.",
    ),
    Allowed(
        "kraft/world/asyncio_bridge.py",
        "ambient module",
        ("asyncio",),
        "Where the HTTP edge's asyncio thread meets the node's loop; simulations have none.",
    ),
    Allowed(
        "api/kraft_http/probes.py",
        "ambient module",
        ("asyncio",),
        "The HTTP edge's own loop: how long a probe waits for the node's.",
    ),
    Allowed(
        "api/kraft_http/on_demand.py",
        "ambient module",
        ("asyncio",),
        "The HTTP edge's own loop: requests wait for a thread that imports the application.",
    ),
    Allowed(
        "api/kraft_http/routers/clusters.py",
        "ambient module",
        ("asyncio",),
        "Likewise: how long the page of the cluster waits for the quorum.",
    ),
    Allowed(
        "api/kraft_http/node_transport.py",
        "ambient module",
        ("asyncio",),
        "Likewise: several brokers are asked side by side.",
    ),
    Allowed(
        "api/kraft_http/requests/preconditions.py",
        "ambient module",
        ("asyncio",),
        "Likewise: conditional changes wait for one another.",
    ),
    Allowed(
        "api/kraft_http/records/searching.py",
        "ambient module",
        ("asyncio",),
        "Likewise: a search works in slices, and rests between them.",
    ),
    Allowed(
        "api/kraft_http/requests/idempotency.py",
        "ambient module",
        ("asyncio",),
        "Likewise: who sends a change again waits for the first one, and its answer is kept for an hour of the loop.",
    ),
    Allowed(
        "api/kraft_http/requests/response_cache.py",
        "ambient module",
        ("asyncio",),
        "Likewise: one asks for all who wait, and answers are kept for two seconds of the loop.",
    ),
    Allowed(
        "api/kraft_http/requests/handshakes.py",
        "ambient module",
        ("asyncio", "ssl"),
        "The HTTP edge's own loop, with contexts from the composition root.",
    ),
    Allowed(
        "kraft/common/compiled.py",
        "ambient name",
        ("pathlib.Path",),
        "It imports code, as Python does, before there is a world.",
    ),
    Allowed(
        "kraft/cli/library_logs.py",
        "ambient module",
        ("logging",),
        "Where what libraries log becomes events of the node.",
    ),
    Allowed(
        "kraft/storage/file_cache.py",
        "finalizer",
        ("__del__",),
        (
            "A handle closes with its last reader, maybe a fetch under way when the cache drops it; simulations "
            "collect only when the seed says."
        ),
    ),
)


def is_allowed(violation: Violation) -> bool:
    return any(entry.covers(violation) for entry in (*ROOTS, *FILES))
