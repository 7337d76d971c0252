"""Finalized feature levels (KIP-584). Level 0 means not finalized, so it is not stored, except for metadata.version,
which has no level 0.

kraft.version is never here: the Raft layer keeps it in control records. A FeatureLevelRecord that names it is ignored,
as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kraft.common.metadata_versions import MetadataVersion, metadata_version_of
from kraft.metadata.image.ordered_map import OrderedMap
from kraft.metadata.image.writer_options import WriterOptions
from kraft.metadata.records.feature_level_record import FeatureLevelRecord

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """Finalized levels by feature name, including metadata.version once it is set."""

    levels: OrderedMap[str, int] = field(default_factory=OrderedMap)
    metadata_version: int | None = field(init=False, compare=False, repr=False)
    """The finalized metadata.version; None before the bootstrap records are replayed."""
    capabilities: MetadataVersion = field(init=False, compare=False, repr=False)
    """What the finalized metadata.version allows; the lowest one while none is finalized."""
    writer_options: WriterOptions = field(init=False, compare=False, repr=False)
    """How records are written at the finalized metadata.version."""

    def __post_init__(self) -> None:
        level = self.levels.get(METADATA_VERSION)
        capabilities = metadata_version_of(level)
        object.__setattr__(self, "metadata_version", level)
        object.__setattr__(self, "capabilities", capabilities)
        object.__setattr__(self, "writer_options", WriterOptions(capabilities))

    @property
    def elr_enabled(self) -> bool:
        return self.level(ELIGIBLE_LEADER_REPLICAS_VERSION) >= 1

    def level(self, name: str) -> int:
        return self.levels.get(name, 0)

    def write(self) -> Iterator[Any]:
        """Return the records, metadata.version first: a reader of the snapshot must know it before anything else."""
        if METADATA_VERSION in self.levels:
            yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=self.levels[METADATA_VERSION])
        for name, level in self.levels.items():
            if name != METADATA_VERSION:
                yield FeatureLevelRecord(name=name, feature_level=level)


class FeaturesDraft:
    __slots__ = ("_base", "_levels", "changed")

    def __init__(self, base: FeaturesImage) -> None:
        self._base = base
        self._levels = base.levels.mutate()
        self.changed: dict[str, int | None] = {}

    def feature_level(self, record: FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION:
            return
        self.changed.setdefault(record.name, self._base.levels.get(record.name))
        if record.feature_level == 0 and record.name != METADATA_VERSION:
            self._levels.pop(record.name, None)
        else:
            self._levels[record.name] = record.feature_level

    def finish(self) -> FeaturesImage:
        return FeaturesImage(OrderedMap(self._levels.finish()))
