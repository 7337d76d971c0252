"""The features this release can run, and what a new cluster finalizes.

Only what is served is advertised: transactions, share groups and the rest join when they are built.
"""

from __future__ import annotations

from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"

METADATA_VERSION_LEVEL: Final = 30
"""4.3-IV0: the record formats that this release writes."""

SUPPORTED_FEATURES: Final[dict[str, tuple[int, int]]] = {METADATA_VERSION: (METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL), KRAFT_VERSION: (0, 1)}
"""Name to the lowest and highest level that a node of this release can run."""
