"""Reports of unclean elections in the metadata log: dynamic keys of the topic, one for each election and one for each
replica that returned.

The active controller writes `kraft.unclean.election.<partition>.<leader epoch>` in the batch of the election: the
former and the new leader, and the known log ends. `kraft.unclean.loss.<partition>.<leader epoch>.<replica>` completes
it: the records that the replica truncated when it returned, or that it is in sync again without a reported loss. So a
report survives fail-overs, and any node can show all of it. A topic's reports are deleted with the topic. An operator
dismisses a report by deleting its keys. The values are JSON objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

PREFIX: Final = "kraft.unclean."
ELECTIONS_KEPT: Final = 4
"""Number of the latest elections kept for each partition."""

_KEY: Final = re.compile(
    r"kraft\.unclean\.(?:election\.(\d{1,10})\.(\d{1,10})|loss\.(\d{1,10})\.(\d{1,10})\.(\d{1,10}))"
)


class Loss(NamedTuple):
    """The records that one replica lost, from `start_offset` to `end_offset` (exclusive), and the leader epoch in which
    it followed again. Empty: none."""

    start_offset: int
    end_offset: int
    high_watermark: int
    """Offset below which the replica knew its records to be committed."""
    leader_epoch: int
    time_ms: int

    def joined(self, earlier: Loss | None) -> Loss:
        """This loss joined with an earlier report of the replica: a log is truncated in steps, and possibly again after
        a crash."""
        if earlier is None or earlier.start_offset == earlier.end_offset:
            return self
        return self._replace(
            start_offset=min(earlier.start_offset, self.start_offset),
            end_offset=max(earlier.end_offset, self.end_offset),
            high_watermark=max(earlier.high_watermark, self.high_watermark),
        )


class UnreportedLoss(NamedTuple):
    """A replica's loss that is not in the report yet. The first lost record was written in `first_epoch`, -1 if
    unknown."""

    topic: str
    topic_id: bytes
    partition: int
    first_epoch: int
    loss: Loss


class Report(NamedTuple):
    """The report of one election. `election` has the controller's facts, `losses` the replicas' reports since, by
    replica."""

    partition: int
    leader_epoch: int
    election: Mapping[str, Any]
    losses: Mapping[int, Loss]

    @property
    def outstanding(self) -> tuple[int, ...]:
        """The replicas that may have more records than the elected one, and have not returned."""
        return tuple(
            replica
            for replica in self.election["replicas"]
            if replica != self.election["leader"] and replica not in self.losses
        )


def is_report_key(name: str) -> bool:
    return _KEY.fullmatch(name) is not None


def election_key(partition: int, leader_epoch: int) -> str:
    return f"{PREFIX}election.{partition}.{leader_epoch}"


def loss_key(partition: int, leader_epoch: int, replica: int) -> str:
    return f"{PREFIX}loss.{partition}.{leader_epoch}.{replica}"


def election_of_loss(key: str) -> str | None:
    """The election key that this loss key completes; None for any other key."""
    found = _KEY.fullmatch(key)
    return None if found is None or found[3] is None else election_key(int(found[3]), int(found[4]))


def text_of(fields: Mapping[str, Any] | Loss) -> str:
    return json.dumps(fields._asdict() if isinstance(fields, Loss) else fields, separators=(",", ":"))


def parse_loss(text: str) -> Loss | None:
    """The loss in `text`; None if it is invalid."""
    try:
        values = json.loads(text)
    except ValueError:
        return None
    if (
        not isinstance(values, dict)
        or set(values) != set(Loss._fields)
        or not all(type(value) is int for value in values.values())
    ):
        return None
    return Loss(**values) if 0 <= values["start_offset"] <= values["end_offset"] else None


def keys_by_partition(texts: Iterable[tuple[str, str]]) -> dict[int, list[tuple[str, str]]]:
    """The keys of reports among a topic's configuration, with their values, by partition."""
    found: dict[int, list[tuple[str, str]]] = {}
    for name, text in texts:
        key = _KEY.fullmatch(name) if name.startswith(PREFIX) else None
        if key is not None:
            found.setdefault(int(key[1] or key[3]), []).append((name, text))
    return found


def reports_of(texts: Iterable[tuple[str, str]]) -> list[Report]:
    """The reports among a topic's configuration, or among some keys of it, in order of partition and leader epoch."""
    elections: dict[tuple[int, int], Any] = {}
    losses: dict[tuple[int, int], dict[int, Loss]] = {}
    for name, text in texts:
        key = _KEY.fullmatch(name) if name.startswith(PREFIX) else None
        if key is None:
            continue
        if key[3] is None:
            elections[int(key[1]), int(key[2])] = json.loads(text)
        elif (loss := parse_loss(text)) is not None:
            losses.setdefault((int(key[3]), int(key[4])), {})[int(key[5])] = loss
    return [Report(*place, elections[place], losses.get(place, {})) for place in sorted(elections)]


def report_of_loss(reports: Iterable[Report], first_epoch: int, leader_epoch: int, replica: int) -> Report | None:
    """The election because of which `replica` truncated records; None if none fits. The first of these records was
    written in `first_epoch`, and they were truncated under a leader of `leader_epoch`. It is the first election after
    `first_epoch`, and up to `leader_epoch`, that did not elect the replica."""
    for report in reports:
        if (
            first_epoch < report.leader_epoch <= leader_epoch
            and replica in report.election["replicas"]
            and replica != report.election["leader"]
        ):
            return report
    return None
