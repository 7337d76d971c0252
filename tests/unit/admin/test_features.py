"""The levels of features that belong to a release of Kafka."""

from __future__ import annotations

import pytest

from kraft.admin.features import Feature, levels_of_release
from kraft.common.metadata_versions import METADATA_VERSIONS, level_of_release

LAST = METADATA_VERSIONS[-1]


@pytest.mark.parametrize(
    ("release", "level"), [("4.3", 30), ("4.3.1", 30), ("4.4-IV1", 32), ("9.9", None), ("4", None)]
)
def test_a_release_names_its_last_metadata_version(release: str, level: int | None) -> None:
    assert level_of_release(release) == level


def test_the_newest_release_is_the_last_level() -> None:
    assert level_of_release(LAST.name.partition("-")[0]) == LAST.level


def test_features_below_the_levels_of_a_release_are_raised_and_no_other() -> None:
    found = [
        Feature("group.version", 1, 0, 1),
        Feature("kraft.version", 0, 0, 1),
        Feature("metadata.version", 30, 30, LAST.level),
        Feature("share.version", 0, 0, 2),
        Feature("transaction.version", 1, 0, 2),
    ]
    assert list(levels_of_release(found, 31).items()) == [
        ("metadata.version", 31),
        ("share.version", 2),
        ("transaction.version", 2),
    ]
    assert levels_of_release(found, 30) == {"share.version": 1, "transaction.version": 2}
