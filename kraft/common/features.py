"""The features that this release supports, and their levels in a new cluster.

Only supported features are advertised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from kraft.common.metadata_versions import ELR_LEVEL, METADATA_VERSION_MAX, METADATA_VERSION_MIN

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
TRANSACTION_VERSION: Final = "transaction.version"
"""0: the protocol of KIP-98. 1: records of the transaction state have tagged fields. 2: the end of a transaction raises
the producer's epoch, and a Produce adds its partitions to the transaction (KIP-890)."""

GROUP_VERSION: Final = "group.version"
"""1: consumer groups are served (KIP-848)."""

SHARE_VERSION: Final = "share.version"
"""1: share groups are served (KIP-932). 2: records that a group gives up are written to its dead letter topic
(KIP-1191)."""

STREAMS_VERSION: Final = "streams.version"
"""1: streams groups are served (KIP-1071)."""


LEVELS_OF_NEW_CLUSTERS: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: ((26, 1),),
    TRANSACTION_VERSION: ((24, 2),),
    GROUP_VERSION: ((22, 1),),
    SHARE_VERSION: ((28, 1), (31, 2)),
    STREAMS_VERSION: ((29, 1),),
}
"""By feature, pairs (metadata.version, level), ascending: a new cluster at this metadata.version or a later one has
this level of the feature (the bootstrap metadata.version of Kafka's FeatureVersion)."""

SUPPORTED_FEATURES: Final[dict[str, tuple[int, int]]] = {
    METADATA_VERSION: (METADATA_VERSION_MIN.level, METADATA_VERSION_MAX.level),
    KRAFT_VERSION: (0, 1),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 2),
    STREAMS_VERSION: (0, 1),
}
"""By feature, the lowest and the highest level that a node of this release can run."""


class FeatureLevels(Protocol):
    """The finalized levels of a cluster, such as `kraft.metadata.image.features_image.FeaturesImage`."""

    def level(self, name: str) -> int:
        """The level of a feature; 0 if it is not finalized."""


def serves_share_groups(levels: FeatureLevels) -> bool:
    """Whether share groups are on in the cluster with these finalized levels."""
    return levels.level(SHARE_VERSION) >= 1


def serves_streams_groups(levels: FeatureLevels) -> bool:
    """Whether streams groups are on in the cluster with these finalized levels."""
    return levels.level(STREAMS_VERSION) >= 1


def writes_dead_letters(levels: FeatureLevels) -> bool:
    """Whether share groups may have dead letters in the cluster with these finalized levels."""
    return levels.level(SHARE_VERSION) >= 2


def unsupported(finalized: Mapping[str, int]) -> list[str]:
    """Return a text for each finalized feature whose level a node of this release cannot run. It names the levels that
    the node can run."""
    found: list[str] = []
    for name, level in sorted(finalized.items()):
        low, high = SUPPORTED_FEATURES.get(name, (0, 0))
        if not low <= level <= high:
            supported = f"levels {low} to {high}" if high else "no level"
            found.append(f"{name} is {level}, and this release supports {supported}")
    return found


def missing_requirement(name: str, level: int, finalized: Mapping[str, int]) -> str | None:
    """Return Kafka's message on a level that another feature must have before this level can be finalized; None if the
    levels in `finalized` suffice."""
    if name == ELIGIBLE_LEADER_REPLICAS_VERSION and level >= 1 and finalized.get(METADATA_VERSION, 0) < ELR_LEVEL:
        return f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {ELR_LEVEL}"
    return None


def level_at_format(name: str, highest: int, metadata_version: int) -> int:
    """Return the level of a feature in a new cluster with this metadata.version, whose nodes run it up to `highest`."""
    level = 0
    for since, each in LEVELS_OF_NEW_CLUSTERS.get(name, ((0, highest),)):
        if metadata_version >= since:
            level = each
    return min(level, highest)


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
