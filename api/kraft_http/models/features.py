"""Features of a cluster and their levels."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, Field

from kraft_http.models.common import Body


class Direction(StrEnum):
    """The permitted direction of a level change."""

    UPGRADE = "upgrade"
    SAFE_DOWNGRADE = "safe_downgrade"
    UNSAFE_DOWNGRADE = "unsafe_downgrade"

    @property
    def upgrade_type(self) -> int:
        """The upgrade type of UpdateFeatures: 1 to 3."""
        return 1 + list(Direction).index(self)


class FeatureData(BaseModel):
    name: str = Field(examples=["transaction.version"])
    level: int = Field(description="The level that is finalized. 0: none.", examples=[1])
    min_level: int = Field(description="The first level that every broker in service can run.", examples=[0])
    max_level: int = Field(description="The last one; below `min_level` where two have none in common.", examples=[2])


class FeatureList(BaseModel):
    data: list[FeatureData]


class FeatureChange(Body):
    """New feature levels. Either all of them are finalized or none."""

    levels: dict[str, Annotated[int, Field(ge=0, le=2**15 - 1)]] = Field(
        min_length=1, max_length=100, examples=[{"transaction.version": 2}]
    )
    direction: Direction = Field(
        default=Direction.UPGRADE,
        description="A level goes down only by `safe_downgrade`, or, where metadata may be lost by it, by "
        "`unsafe_downgrade`.",
    )
    validate_only: bool = Field(default=False, description="Check, and change nothing.")


class FeatureLevels(BaseModel):
    levels: dict[str, int] = Field(description="As asked for.", examples=[{"transaction.version": 2}])
