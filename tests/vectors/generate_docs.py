"""Writes docs/api-support.md: what is served beside what Apache Kafka serves, and where we differ on purpose.

`python -m tests.vectors.generate_docs [--check]`, at the root of the tree; a test runs the check. What is served
comes from the handlers' registries, which dispatch and ApiVersions use too; what Apache Kafka serves from its own
answers to ApiVersions (tests/vectors/recorded); differences from the list that comparisons with those recordings use
(tests/vectors/differences.py), and from the decisions in docs/adr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kraft._tools.generated_page import write_or_check
from kraft.handlers.all_handlers import broker_registry, controller_registry
from kraft.handlers.registry import Registry
from kraft.protocol import api_keys

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "docs" / "api-support.md"
RECORDED = ROOT / "tests" / "vectors" / "recorded" / "cluster.json"
DECISIONS = ROOT / "docs" / "adr"

Versions = Mapping[int, tuple[int, int]]

INTRODUCTION = """\
# APIs served

Generated from the handlers' registries by `python -m tests.vectors.generate_docs`: do not edit.

The table shows the versions that ApiVersions advertises here and in Apache Kafka 4.4.0. The broker columns are for the
listeners of brokers and clients, the controller columns for those of controllers. A version that is not advertised is
not served: a request for it closes the connection. Versions are **bold** where kraft serves less than Kafka.
"""

DIFFERENCES = """\
## Deliberate differences

The same scripted requests go to Apache Kafka and to a node of ours, and the answers are compared field by field
(tests/vectors). Where they differ on purpose:
"""

NOTHING_IS_MISSING = (
    "Nothing: brokers and controllers serve every API that those of Apache Kafka 4.4.0 advertise, in all versions."
)

RETIRED = """\
GetTelemetrySubscriptions and PushTelemetry (71 and 72) are served by Apache Kafka only with a plugin that receives the
metrics; the recorded one has a plugin. kraft receives them itself unless `kraft.telemetry.enable=false`.

Keys 4 to 7 (ZooKeeper's control requests) are retired, as in Apache Kafka 4. Produce is advertised from 0 and served
from 3, as in Apache Kafka (KAFKA-18659).
"""


def document() -> str:
    """The whole text."""
    broker, controller = advertised(broker_registry()), advertised(controller_registry())
    lines = [
        INTRODUCTION,
        *_table(broker, controller),
        "",
        RETIRED,
        *_missing(broker, controller),
        "",
        DIFFERENCES,
        *_differences(),
        "",
        *_decisions(),
    ]
    return "\n".join(lines) + "\n"


def advertised(registry: Registry) -> Versions:
    return {handler.key: (handler.advertised_min, handler.max_version) for handler in registry.handlers()}


def recorded(case: str) -> Versions:
    """What Apache Kafka answered to the newest ApiVersions of a recorded case."""
    steps: list[dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))[case]
    return {
        entry["api_key"]: (entry["min_version"], entry["max_version"]) for entry in steps[-1]["answers"][0]["api_keys"]
    }


def _table(broker: Versions, controller: Versions) -> Iterator[str]:
    kafka_broker, kafka_controller = recorded("api-versions"), recorded("api-versions-controller")
    yield "| key | API | broker | Kafka's broker | controller | Kafka's controller |"
    yield "|---|---|---|---|---|---|"
    for key in sorted({*broker, *controller}):
        cells = [
            _cell(broker, kafka_broker, key),
            _plain(kafka_broker, key),
            _cell(controller, kafka_controller, key),
            _plain(kafka_controller, key),
        ]
        yield f"| {key} | {api_keys.name_of(key)} | {' | '.join(cells)} |"


def _plain(versions: Versions, key: int) -> str:
    found = versions.get(key)
    return "" if found is None else f"{found[0]}-{found[1]}"


def _cell(ours: Versions, kafkas: Versions, key: int) -> str:
    """Ours, bold where Kafka serves more."""
    mine, its = ours.get(key), kafkas.get(key)
    if mine is None:
        return "" if its is None else "**-**"
    is_less = its is not None and (mine[0] > its[0] or mine[1] < its[1])
    return f"**{_plain(ours, key)}**" if is_less else _plain(ours, key)


def missing(ours: Versions, case: str) -> Iterator[str]:
    """What Apache Kafka advertises at a listener and we do not: API, key and versions."""
    for key, versions in recorded(case).items():
        if _cell(ours, {key: versions}, key).startswith("**"):
            yield f"{api_keys.name_of(key)} ({key}) {_plain({key: versions}, key)}"


def _missing(broker: Versions, controller: Versions) -> Iterator[str]:
    absent = [
        *(f"{each} for clients" for each in missing(broker, "api-versions")),
        *(f"{each} at controllers" for each in missing(controller, "api-versions-controller")),
    ]
    yield "## Not served yet\n"
    yield ", ".join(absent) + "." if absent else NOTHING_IS_MISSING


def _differences() -> Iterator[str]:
    sys.path.insert(0, str(ROOT))
    from tests.vectors.differences import BEYOND_VECTORS  # In the tree, not in the package.
    from tests.vectors.differences import DIFFERENCES as LISTED

    yield "| what | where | why |"
    yield "|---|---|---|"
    for difference in LISTED:
        where = difference.where.replace("|", "\\|")
        yield f"| {difference.name} | `{where}` | {difference.reason} |"
    yield "\nWhere it takes several clients, nodes or some time to see:\n"
    for documented in BEYOND_VECTORS:
        yield f"- {documented.name}: {documented.reason}"


def _decisions() -> Iterator[str]:
    yield "Decisions behind these and others:\n"
    for path in sorted(DECISIONS.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# 0123456789.").strip()
        yield f"- [{title}](adr/{path.name})"


def main(arguments: list[str]) -> int:
    return write_or_check(document(), TARGET, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
