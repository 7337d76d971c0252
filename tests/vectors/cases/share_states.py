"""The share coordinator's APIs at share.version 1, which each case turns on and off again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vectors.case import Ask, Case, Step, case, create

INITIALIZE, READ, WRITE = "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState"
DELETE, SUMMARY = "DeleteShareGroupState", "ReadShareGroupStateSummary"
UPGRADE, DOWNGRADE = 1, 2


def level(level: int, upgrade_type: int) -> Ask:
    """Set share.version."""
    update = {"feature": "share.version", "max_version_level": level, "upgrade_type": upgrade_type}
    return Ask(
        {"timeout_ms": 30000, "feature_updates": [update]}, api="UpdateFeatures", version=1, hidden=True, pause_s=0.3
    )


def states_topic() -> Ask:
    """The topic of share states, which is created automatically."""
    body = {"topics": [{"name": "__share_group_state"}], "allow_auto_topic_creation": True}
    return Ask(body, api="Metadata", version=9, hidden=True, until=0)


def on_partition(**fields: Any) -> dict[str, Any]:
    partitions = [{"partition": 0, **fields}]
    return {"group_id": "$group", "topics": [{"topic_id": "$topic.id", "partitions": partitions}]}


def initialize(**more: Any) -> Ask:
    return Ask(on_partition(state_epoch=1, start_offset=5), api=INITIALIZE, version=0, **more)


def write(leader_epoch: int = 0, version: int | None = 0, **more: Any) -> Ask:
    batches = [{"first_offset": 7, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}]
    fields = {"state_epoch": 1, "leader_epoch": leader_epoch, "start_offset": 6, "delivery_complete_count": 3}
    return Ask(on_partition(state_batches=batches, **fields), api=WRITE, version=version, **more)


def read(leader_epoch: int = 0, **more: Any) -> Ask:
    return Ask(on_partition(leader_epoch=leader_epoch), api=READ, version=0, **more)


def summary(version: int | None = 0) -> Ask:
    return Ask(on_partition(leader_epoch=0), api=SUMMARY, version=version)


def delete() -> Ask:
    return Ask(on_partition(), api=DELETE, version=0)


def on(*steps: Step) -> Iterator[Step]:
    """The steps at share.version 1, with a topic whose share coordinator is known."""
    yield from create()
    yield level(1, UPGRADE)
    yield states_topic()
    yield initialize(hidden=True, until=0)
    yield from steps
    yield level(0, DOWNGRADE)


CASES: tuple[Case, ...] = (
    case("initialized-twice", INITIALIZE, on(initialize(), summary())),
    case("written", WRITE, on(write(version=None), read(), summary())),
    case("read-fences", READ, on(read(leader_epoch=4), write(leader_epoch=3), read(leader_epoch=3))),
    case("summary", SUMMARY, on(summary(version=None))),
    case("deleted", DELETE, on(delete(), delete(), summary(), read(), write())),
)
