"""The precedence of configuration sources: command line over files (the last given first) over the environment over
defaults.

This module only gathers texts; nothing is parsed here. Every setting keeps its origin, so that an error message can
name file and line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kraft.common.config.properties import parse_properties
from kraft.common.config.resources import is_secret


class Setting(NamedTuple):
    """One given value. `origin` reads as `server.properties:12` or `--listen`."""

    key: str
    text: str
    origin: str
    is_provided: bool = False
    """Whether a part of the value comes from `config.providers`. Then it is not shown."""


class ConfigFile(NamedTuple):
    path: str
    text: str


class RawConfig(NamedTuple):
    """The winning setting of every key that is set, and the problems found."""

    settings: dict[str, Setting]
    problems: list[str]
    warnings: list[str]


OPTION_KEYS: Final = {
    "--role": "process.roles",
    "--node-id": "node.id",
    "--data-dir": "log.dirs",
    "--listen": "kraft.option.listen",
    "--controller-listen": "kraft.option.controller.listen",
    "--admin": "kraft.admin.listener",
    "--voters": "controller.quorum.voters",
    "--bootstrap-controllers": "controller.quorum.bootstrap.servers",
    "--cluster-id": "kraft.cluster.id",
    "--format": "kraft.format",
    "--log-format": "kraft.log.format",
    "--log-level": "kraft.log.level",
}
"""The key that each option sets. The two listen options change one address in `listeners` each (`node_config`)."""

LISTEN_OPTIONS: Final = ("kraft.option.listen", "kraft.option.controller.listen")

_IMAGE_VARIABLES: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HOME",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    }
)
"""Variables of Kafka's container image that control its scripts."""


def gather(
    options: Sequence[tuple[str, str]], sets: Sequence[str], files: Sequence[ConfigFile], environment: Mapping[str, str]
) -> RawConfig:
    """Gather the settings. `options` are pairs of option and text in `OPTION_KEYS`' names; `sets` the texts of --set;
    `files` in the order given."""
    problems: list[str] = []
    warnings: list[str] = []
    layers = [_from_environment(environment)]
    layers += [_from_file(file, problems, warnings) for file in files]
    layers.append(_from_command_line(options, sets, problems))
    settings: dict[str, Setting] = {}
    for layer in layers:
        settings.update(layer)
    return RawConfig(settings, problems, warnings)


def _from_command_line(
    options: Sequence[tuple[str, str]], sets: Sequence[str], problems: list[str]
) -> dict[str, Setting]:
    given = [Setting(OPTION_KEYS[option], text, option) for option, text in options]
    for pair in sets:
        key, separator, text = pair.partition("=")
        if separator and key.strip():
            given.append(Setting(key.strip(), text.strip(), "--set"))
        else:
            # Only what must be the key: the rest may be a password.
            problems.append(f"--set {re.split(r'[^A-Za-z0-9._-]', pair.strip(), maxsplit=1)[0]}...: not key=value")
    layer: dict[str, Setting] = {}
    for setting in given:
        earlier = layer.setdefault(setting.key, setting)
        if earlier.text != setting.text:
            problems.append(
                f"{setting.key}: two values on the command line, {_shown(earlier)} by {earlier.origin} and "
                f"{_shown(setting)} by {setting.origin}"
            )
    if "listeners" in layer:
        problems += [
            f"{layer[key].origin}: listeners is given by --set as well; name the address once"
            for key in LISTEN_OPTIONS
            if key in layer
        ]
    return layer


def _shown(setting: Setting) -> str:
    """Quote a value unless it is a secret."""
    return (
        "one that is not shown"
        if setting.key not in OPTION_KEYS.values() and is_secret(setting.key)
        else repr(setting.text)
    )


def _from_file(file: ConfigFile, problems: list[str], warnings: list[str]) -> dict[str, Setting]:
    layer: dict[str, Setting] = {}
    try:
        entries = parse_properties(file.text)
    except ValueError as problem:
        problems.append(f"{file.path}: {problem}")
        return layer
    for entry in entries:
        earlier = layer.get(entry.key)
        if earlier is not None and earlier.text != entry.value:
            warnings.append(f"{file.path}:{entry.line}: {entry.key} replaces the value of {earlier.origin}")
        layer[entry.key] = Setting(entry.key, entry.value.strip(), f"{file.path}:{entry.line}")
    return layer


def _from_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    """The settings of the environment, with Kafka's name mapping: drop KAFKA_, then ___ is -, __ is _, _ is a dot;
    CLUSTER_ID is the cluster id."""
    settings = [
        Setting(environment_key(name), environment[name], f"environment {name}")
        for name in sorted(environment)
        if is_configuration_variable(name)
    ]
    if environment.get("CLUSTER_ID"):
        settings.append(Setting("kraft.cluster.id", environment["CLUSTER_ID"], "environment CLUSTER_ID"))
    return {setting.key: setting for setting in settings}


def is_configuration_variable(name: str) -> bool:
    return name.startswith("KAFKA_") and name not in _IMAGE_VARIABLES


def environment_key(name: str) -> str:
    """The key of an environment variable: `KAFKA_NUM_PARTITIONS` is num.partitions."""
    return (
        name.removeprefix("KAFKA_").lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
    )
