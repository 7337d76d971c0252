"""Writes docs/configuration.md from the table of keys. `python -m kraft._tools.generate_config_docs [--check]`; a
test runs the check."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from kraft._tools.generated_page import write_or_check
from kraft.common.config.definition import ConfigKey, Status, UpdateMode
from kraft.common.config.node.layers import OPTION_KEYS
from kraft.common.config.node.node_loader import NODE_DEFAULTS, QUORUM_OF_ONE_DEFAULTS
from kraft.common.config.resources import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS, TOPIC_SYNONYMS

TARGET = Path(__file__).parents[2] / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration

Generated from the table of keys in `kraft/common/config/keys` by `python -m kraft._tools.generate_config_docs`: do
not edit.

Names, types, defaults, limits and update modes are those of Apache Kafka 4.4.0; keys that begin with `kraft.` are ours.

## Where values come from

An option or `--set key=value` wins over the last `--config FILE`, which wins over the first; then come the
environment and the defaults. Two different values for one key on the command line are an error. Files are Java
properties as Kafka reads them. In the environment `KAFKA_NUM_PARTITIONS` is `num.partitions` (a dot is `_`, an
underscore `__`, a dash `___`), and `CLUSTER_ID` is `kraft.cluster.id`, as in Kafka's image.

A node that cannot work with its configuration says everything that is wrong in one report, with file and line, and
exits with 2. An unknown key is an error, and one that Kafka 4 removed a warning.

## What the status of a key means

| status | meaning |
|---|---|
| enforced | It does what is written here. |
| accepted | It changes nothing here. Other values than the default are logged at start, and refused over the wire. |
| refused | Not served yet. Any value but the default is an error, since passing over it would break a promise. |
| plugin | Names code that only a JVM could load. It is logged once and has no effect. |

Broker keys with the update mode *cluster-wide* can be changed on a running cluster for all brokers or for one, those
with *per-broker* for one broker only, the others with a restart.
"""

_LISTEN_OPTIONS = {
    "kraft.option.listen": "the first broker listener in `listeners`",
    "kraft.option.controller.listen": "the first controller listener in `listeners`",
}


def document() -> str:
    """The text of the page."""
    return "\n".join([INTRODUCTION, *_options(), *_defaults(), *_brokers(), *_topics(), *_others()]) + "\n"


def _options() -> Iterator[str]:
    yield "## Options of `kraft-node`\n"
    yield "| option | key |"
    yield "|---|---|"
    for option, key in OPTION_KEYS.items():
        yield f"| `{option}` | {_LISTEN_OPTIONS.get(key, f'`{key}`')} |"
    yield ""


def _defaults() -> Iterator[str]:
    yield "## Defaults of `kraft-node` that are not Kafka's\n"
    yield "| key | default | when |"
    yield "|---|---|---|"
    for name, text in NODE_DEFAULTS.items():
        yield f"| `{name}` | `{text}` | always |"
    yield "| `listeners` | `PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093` | as far as the roles need them |"
    for name, text in QUORUM_OF_ONE_DEFAULTS.items():
        yield f"| `{name}` | `{text}` | a node that is its own quorum |"
    yield ""


def _brokers() -> Iterator[str]:
    yield "## Keys of brokers and controllers\n"
    keys = [key for key in BROKER_KEYS if not key.internal]
    for title, chosen in (
        ("Our own", [key for key in keys if key.name.startswith("kraft.")]),
        ("Enforced", [key for key in keys if key.status == Status.ENFORCED and not key.name.startswith("kraft.")]),
        ("Accepted", [key for key in keys if key.status == Status.ACCEPTED]),
        ("Refused", [key for key in keys if key.status == Status.REFUSED]),
        ("Of plugins", [key for key in keys if key.status == Status.PLUGIN]),
    ):
        yield f"### {title}\n"
        yield from _table(chosen, update_mode=True)


def _topics() -> Iterator[str]:
    yield "## Keys of topics\n"
    yield "All can be changed at any time. The broker's key gives the default; the first one that is set counts.\n"
    yield "| key | type | default | valid | broker's key | status | meaning |"
    yield "|---|---|---|---|---|---|---|"
    for key in TOPIC_KEYS.public():
        behind = ", ".join(f"`{synonym.name}`" for synonym in TOPIC_SYNONYMS.get(key.name, ()))
        yield (
            f"| `{key.name}` | {key.type_name.lower()} | {_default(key)} | {_valid(key)} | {behind} | "
            f"{key.status} | {key.documentation} |"
        )
    yield ""


def _others() -> Iterator[str]:
    yield "## Keys of groups\n"
    yield "All can be changed at any time. `group.` and the key name the broker's default, where there is one.\n"
    yield from _table(GROUP_KEYS, update_mode=False)
    yield "## Keys of client-metrics subscriptions\n"
    yield from _table(CLIENT_METRICS_KEYS, update_mode=False)


def _table(keys: Iterable[ConfigKey], *, update_mode: bool) -> Iterator[str]:
    yield "| key | type | default | valid |" + (" update |" if update_mode else " status |") + " meaning |"
    yield "|---|---|---|---|---|---|"
    for key in keys:
        fifth = ("" if key.update_mode == UpdateMode.READ_ONLY else key.update_mode) if update_mode else key.status
        yield (
            f"| `{key.name}` | {key.type_name.lower()} | {_default(key)} | {_valid(key)} | {fifth} | "
            f"{key.documentation} |"
        )
    yield ""


def _default(key: ConfigKey) -> str:
    if key.required:
        return "required by Kafka"
    text = key.default_canonical_text
    return "" if text is None else f"`{text}`" if text else "empty"


def _valid(key: ConfigKey) -> str:
    described = key.validator.describe()
    return f"`{described}`" if described else ""


def main(arguments: list[str]) -> int:
    return write_or_check(document(), TARGET, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
