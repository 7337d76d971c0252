"""Where kraft answers otherwise than Apache Kafka on purpose. Each has a name, where it shows, and the reason; docs/api-support.md lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """`where` is a regular expression over `module/case/version/step/path.of.the.field`."""

    name: str
    where: str
    reason: str

    def covers(self, place: str) -> bool:
        return re.fullmatch(self.where, place) is not None


DIFFERENCES: tuple[Difference, ...] = (
    Difference("fewer APIs", r"cluster/api-versions.*/api_keys\..*", "Only what is served is advertised."),
    Difference("fewer features", r"cluster/api-versions.*/(supported|finalized)_features\..*", "Features are finalized when what they stand for is served."),
    Difference("features epoch", r"cluster/api-versions.*/finalized_features_epoch", "It counts offsets of the metadata log, whose records differ."),
)


def reason_for(place: str) -> Difference | None:
    """The deliberate difference that covers this place, if any."""
    return next((each for each in DIFFERENCES if each.covers(place)), None)
