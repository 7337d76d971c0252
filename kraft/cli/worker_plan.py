"""The nodes that `kraft-node --workers N` starts on a machine, and their command lines. Pure.

Worker i has the first worker's id and port plus i, and a directory of its own. Without --voters and
--bootstrap-controllers the first three workers are controllers, too (of one or two workers, the first). With --voters
the workers named there are; with --bootstrap-controllers none is. All others are only brokers. The machine's name is
the rack of all, so that no two replicas of a partition are on one machine if the cluster has others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kraft.common.config.node.internal_topics import internal_topic_settings
from kraft.common.errors import ConfigurationError

WORKERS_MAX: Final = 64
QUORUM: Final = 3
CONTROLLER_PORT_AHEAD: Final = 1000
"""Distance from the first client port to the first controller port: 10092 for 9092."""
OWN: Final = (
    "--workers",
    "--node-id",
    "--data-dir",
    "--listen",
    "--controller-listen",
    "--admin",
    "--voters",
    "--role",
    "--cluster-id",
)
"""Options with a new value for every worker."""
PER_NODE: Final = (
    "node.id",
    "broker.id",
    "process.roles",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "controller.quorum.voters",
)
"""Keys with a different value for each node, which options set."""
ADVERTISED: Final = "advertised.listeners"


class Worker(NamedTuple):
    """`arguments` are those of `kraft-node`; `home` is the parent of its directories."""

    node_id: int
    is_controller: bool
    home: str
    arguments: tuple[str, ...]


class Machine(NamedTuple):
    """Settings that all workers share: `directory` is the first data directory; `cluster_id` is None if each worker
    learns it from the quorum."""

    workers: tuple[Worker, ...]
    directory: str
    admin: str


def plan_workers(
    count: int, arguments: Sequence[str], given: Mapping[str, str], sets: Sequence[str], host: str, cluster_id: str
) -> Machine:
    """`arguments` are those of the command line, `given` its options with their last texts, `sets` its --set pairs.
    Raises ConfigurationError with every problem."""
    problems = [] if 1 <= count <= WORKERS_MAX else [f"--workers: {count} is not from 1 to {WORKERS_MAX}"]
    keys = {key.strip(): value for key, _, value in (each.partition("=") for each in sets)}
    problems += [
        f"--set {key} is for one node: with --workers it follows from --node-id, --listen and --data-dir"
        for key in PER_NODE
        if key in keys
    ]
    first = _number(given.get("--node-id", "1"), "--node-id", problems)
    address, port = _address(given.get("--listen", "127.0.0.1:9092"), "--listen", problems)
    quorum_address, quorum_port = _address(
        given.get("--controller-listen", f"{address}:{port + CONTROLLER_PORT_AHEAD}"), "--controller-listen", problems
    )
    ids = [first + index for index in range(max(0, min(count, WORKERS_MAX)))]
    voters = _voters(given, ids, quorum_address, quorum_port, problems)
    controllers = [each for each in ids if each in voters]
    if not problems and abs(quorum_port - port) < max(len(ids), len(controllers)):
        problems.append(f"--controller-listen: ports from {quorum_port} on overlap those of --listen, from {port} on")
    if ADVERTISED in keys:
        _shifted(keys[ADVERTISED], 0, problems)
    if problems:
        raise ConfigurationError(problems)
    rest = [*_without(arguments, OWN), *_defaults(keys, given, ids, host)]
    admin = given.get("--admin", "127.0.0.1:9644")
    directories = given.get("--data-dir", "./kraft-data").split(",")
    workers = []
    for index, node_id in enumerate(ids):
        homes = [f"{each.rstrip('/')}/worker-{node_id}" for each in directories]
        own = ["--node-id", str(node_id), "--data-dir", ",".join(homes), "--listen", f"{address}:{port + index}"]
        own += ["--admin", admin if index == 0 else "off"]
        if node_id in voters:
            place = controllers.index(node_id)
            own += ["--controller-listen", f"{quorum_address}:{quorum_port + place}"]
        else:
            own += ["--role", "broker"]
        if voters:
            own += ["--voters", ",".join(f"{each}@{where}" for each, where in voters.items())]
        if cluster_id:
            own += ["--cluster-id", cluster_id]
        if ADVERTISED in keys:
            own += ["--set", f"{ADVERTISED}={_shifted(keys[ADVERTISED], index, [])}"]
        workers.append(Worker(node_id, node_id in voters, homes[0], (*own, *rest)))
    return Machine(tuple(workers), directories[0], admin)


def _voters(
    given: Mapping[str, str], ids: Sequence[int], address: str, port: int, problems: list[str]
) -> dict[int, str]:
    """The addresses of the quorum by id; empty with --bootstrap-controllers."""
    if "--bootstrap-controllers" in given:
        return {}
    if "--voters" not in given:
        chosen = ids[:QUORUM] if len(ids) >= QUORUM else ids[:1]
        return {each: f"{_reached(address)}:{port + place}" for place, each in enumerate(chosen)}
    voters: dict[int, str] = {}
    for each in given["--voters"].split(","):
        name, separator, where = each.strip().partition("@")
        if not separator or not name.isdigit():
            problems.append(f"--voters: {each!r} is not ID@HOST:PORT")
        else:
            voters[int(name)] = where
    return voters


def _reached(address: str) -> str:
    """The address for connections from this machine: that of a wildcard address is 127.0.0.1."""
    return "127.0.0.1" if address in ("0.0.0.0", "", "[::]") else address


def _defaults(keys: Mapping[str, str], given: Mapping[str, str], ids: Sequence[int], host: str) -> list[str]:
    """Settings of all workers that were not given."""
    chosen = {"broker.rack": host}
    if "--voters" not in given and "--bootstrap-controllers" not in given:
        chosen |= internal_topic_settings(len(ids))
    return [text for key, value in chosen.items() if key not in keys for text in ("--set", f"{key}={value}")]


def _number(text: str, option: str, problems: list[str]) -> int:
    if not text.isdigit():
        problems.append(f"{option}: {text!r} is not a number")
        return 0
    return int(text)


def _address(text: str, option: str, problems: list[str]) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit() or not 0 < int(port) < 65536 - WORKERS_MAX:
        problems.append(f"{option}: {text!r} is not HOST:PORT with a port below {65536 - WORKERS_MAX} that is not 0")
        return host, 1
    return host, int(port)


def _shifted(listeners: str, index: int, problems: list[str]) -> str:
    """The advertised listeners of worker `index`, with ports increased by `index`."""
    found = []
    for each in listeners.split(","):
        head, separator, port = each.strip().rpartition(":")
        if not separator or not port.isdigit():
            problems.append(f"--set {ADVERTISED}: {each!r} has no port, which counts up from worker to worker")
        else:
            found.append(f"{head}:{int(port) + index}")
    return ",".join(found)


def _without(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """The command line without these options, which have one value each, and without advertised listeners."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        name, separator, text = word.partition("=")
        if name in options:
            if not separator:
                next(words, None)
        elif name == "--set":
            pair = text if separator else next(words, "")
            if pair.partition("=")[0].strip() != ADVERTISED:
                kept += ["--set", pair]
        else:
            kept.append(word)
    return kept
