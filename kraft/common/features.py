"""The features that this release supports, and their levels in a new cluster.

Only supported features are advertised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
TRANSACTION_VERSION: Final = "transaction.version"
"""0: as ever (KIP-98). 1: records of transactions have tagged fields. 2: the end of a transaction raises its producer's
epoch, and what a producer writes adds its partition (KIP-890)."""

GROUP_VERSION: Final = "group.version"
"""1: consumer groups are served (KIP-848)."""

SHARE_VERSION: Final = "share.version"
"""1: share groups are served (KIP-932). 2: letters of the records that a group gives up are written to its dead letter
topic (KIP-1191)."""


class MetadataVersion(NamedTuple):
    """A level of metadata.version."""

    level: int
    name: str
    changes_metadata: bool
    """Whether the metadata log may have contents from this level on that a lower level does not know. A cluster does
    not return from it to a lower level."""


METADATA_VERSIONS: Final = (
    MetadataVersion(30, "4.3-IV0", True),  # Cordoned log directories (KIP-1066).
    MetadataVersion(31, "4.4-IV0", False),  # share.version 2 in a new cluster (KIP-1191).
    MetadataVersion(32, "4.4-IV1", True),  # Access control entries for ranges of addresses (KIP-1276).
    MetadataVersion(33, "4.4-IV2", True),  # UnregisterControllerRecord (KIP-1312).
)
"""The levels that this release runs, ascending. The records of all of them have the same versions."""

METADATA_VERSION_NAMES: Final[Mapping[int, str]] = {each.level: each.name for each in METADATA_VERSIONS}

CORDONS_LEVEL: Final = 30
"""From here on brokers report cordoned log directories, and the controller places no replicas there (KIP-1066)."""

CIDR_ACLS_LEVEL: Final = 32
"""From here on an access control entry may name a range of addresses (KIP-1276)."""

UNREGISTER_CONTROLLER_LEVEL: Final = 33
"""From here on a controller can be unregistered (KIP-1312)."""

DEAD_LETTERS_BY_DEFAULT_LEVEL: Final = 31
"""From here on a new cluster has share.version 2."""

SUPPORTED_FEATURES: Final[dict[str, tuple[int, int]]] = {
    METADATA_VERSION: (METADATA_VERSIONS[0].level, METADATA_VERSIONS[-1].level),
    KRAFT_VERSION: (0, 1),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 2),
}
"""Name to the lowest and highest level that a node of this release can run."""


class FeatureLevels(Protocol):
    """The finalized levels of a cluster, such as `kraft.metadata.image.features_image.FeaturesImage`."""

    def level(self, name: str) -> int:
        """The level of a feature; 0 if it is not finalized."""


def serves_share_groups(levels: FeatureLevels) -> bool:
    """Whether share groups are on in the cluster with these finalized levels."""
    return levels.level(SHARE_VERSION) >= 1


def writes_dead_letters(levels: FeatureLevels) -> bool:
    """Whether share groups may have dead letters in the cluster with these finalized levels."""
    return levels.level(SHARE_VERSION) >= 2


def serves_cordons(metadata_version: int | None) -> bool:
    """Whether log directories can be cordoned in a cluster with this metadata.version; None while it is unknown."""
    return metadata_version is not None and metadata_version >= CORDONS_LEVEL


def unsupported(finalized: Mapping[str, int]) -> list[str]:
    """Say which finalized levels a node of this release cannot run, each with the range that it can."""
    found: list[str] = []
    for name, level in sorted(finalized.items()):
        low, high = SUPPORTED_FEATURES.get(name, (0, 0))
        if not low <= level <= high:
            supported = f"levels {low} to {high}" if high else "no level"
            found.append(f"{name} is {level}, and this release supports {supported}")
    return found


def level_at_format(name: str, highest: int, metadata_version: int) -> int:
    """Return the level of a feature in a new cluster with this metadata.version, whose nodes run it up to `highest`."""
    if name == SHARE_VERSION and metadata_version < DEAD_LETTERS_BY_DEFAULT_LEVEL:
        return min(1, highest)
    return highest


def finalized_at_format(asked: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The levels of a new cluster: every feature at its level of `level_at_format`, unless another was requested;
    metadata.version first, the others by name.

    kraft.version belongs to the Raft layer; level 0 means not finalized.
    """
    metadata_version = asked.get(METADATA_VERSION, SUPPORTED_FEATURES[METADATA_VERSION][1])
    levels = {
        name: asked.get(name, level_at_format(name, highest, metadata_version))
        for name, (_, highest) in SUPPORTED_FEATURES.items()
        if name not in (METADATA_VERSION, KRAFT_VERSION)
    }
    others = tuple((name, level) for name, level in sorted(levels.items()) if level > 0)
    return ((METADATA_VERSION, metadata_version), *others)


def loses_metadata(current: int, level: int) -> bool:
    """Whether the change of metadata.version from `current` to the lower `level` may lose contents of the metadata
    log."""
    return any(each.changes_metadata for each in METADATA_VERSIONS if level < each.level <= current)
