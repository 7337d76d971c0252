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
    Difference(
        "bytes left over", r"cluster/trailing-bytes/[0-3]/.*", "A body longer than its message is malformed: the connection closes. Kafka looks the other way."
    ),
    Difference(
        "always an answer",
        r"produce/null-records/.*",
        "Null records are refused like empty ones. Kafka forgets to answer and the client waits for its timeout.",
    ),
    Difference("always an answer", r"configs/replace-same-resource-twice/.*", "Refused as INVALID_REQUEST. Kafka forgets to answer and the client waits."),
    Difference(
        "created at once", r"cluster/metadata-creates/.*", "The answer that creates a topic already describes it. Kafka says UNKNOWN_TOPIC_OR_PARTITION first."
    ),
    Difference("features epoch", r"cluster/api-versions.*/finalized_features_epoch", "It counts offsets of the metadata log, whose records differ."),
)


def reason_for(place: str) -> Difference | None:
    """The deliberate difference that covers this place, if any."""
    return next((each for each in DIFFERENCES if each.covers(place)), None)
