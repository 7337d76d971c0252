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
    level: int = Field(description="Finalized level; 0: not finalized.", examples=[1])
    min_level: int = Field(description="Lowest level that every active broker supports.", examples=[0])
    max_level: int = Field(
        description="Highest such level; below `min_level` if two brokers have no common level.", examples=[2]
    )


class FeatureList(BaseModel):
    data: list[FeatureData]


class FeatureChange(Body):
    """New feature levels. Either all of them are finalized or none."""

    levels: dict[str, Annotated[int, Field(ge=0, le=2**15 - 1)]] = Field(
        min_length=1, max_length=100, examples=[{"transaction.version": 2}]
    )
    direction: Direction = Field(
        default=Direction.UPGRADE,
        description=(
            "Default: upgrade. A downgrade needs `safe_downgrade`, or `unsafe_downgrade` if metadata may be lost."
        ),
    )
    validate_only: bool = Field(default=False, description="Validate the change without applying it.")


class FeatureLevels(BaseModel):
    levels: dict[str, int] = Field(description="Levels of the request.", examples=[{"transaction.version": 2}])
