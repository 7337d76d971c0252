"""The log directories that take no new replicas: `cordoned.log.dirs` (KIP-1066).

An entry is a path as in `log.dirs`, or the absolute path that it stands for. `*` alone means every directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kraft.common.config.node.node_config import NodeConfig

CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"
ALL: Final = "*"


class Cordons(NamedTuple):
    directories: frozenset[str]
    """Absolute paths."""
    unknown: tuple[str, ...]
    """Entries that name no log directory of this broker. They have no effect. A broker may have such after its
    `log.dirs` changed."""


def cordons(config: NodeConfig) -> Cordons:
    """The cordoned directories of a broker with this configuration."""
    entries = config.texts(CORDONED_LOG_DIRS)
    return _read(entries, config) if entries else Cordons(frozenset(), ())


def cordons_complaint(entries: Sequence[str], config: NodeConfig) -> str | None:
    """Why a broker with this configuration cannot cordon these entries, in Kafka's words, or None."""
    if ALL in entries and len(entries) > 1:
        return f"When {CORDONED_LOG_DIRS} is set to {ALL}, it must not contain other values"
    unknown = _read(entries, config).unknown
    if unknown:
        missing = ", ".join(unknown)
        return f"All entries in {CORDONED_LOG_DIRS} must be present in log.dirs or log.dir. Missing entries : {missing}"
    return None


def _read(entries: Sequence[str], config: NodeConfig) -> Cordons:
    if ALL in entries:
        return Cordons(frozenset(config.log_dirs), ())
    spellings = config.values["log.dirs"] or config.values["log.dir"]
    assert isinstance(spellings, tuple)
    paths = {path: path for path in config.log_dirs}
    paths.update(zip(spellings, config.log_dirs, strict=True))
    found = {entry: paths.get(entry) or paths.get(entry.rstrip("/")) for entry in entries}
    return Cordons(
        frozenset(path for path in found.values() if path is not None),
        tuple(entry for entry, path in found.items() if path is None),
    )
