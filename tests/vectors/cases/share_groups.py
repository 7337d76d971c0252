"""Members of share groups and their offsets at share.version 1, which each case turns on and off again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vectors.case import Ask, Case, Step, case, create, produced
from tests.vectors.cases.share_states import DOWNGRADE, UPGRADE, level, states_topic
from tests.vectors.plain import Batch

HEARTBEAT, DESCRIBE, FETCH = "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch"
ACKNOWLEDGE, OFFSETS = "ShareAcknowledge", "DescribeShareGroupOffsets"
ALTER, FORGET, DELETE_GROUPS = "AlterShareGroupOffsets", "DeleteShareGroupOffsets", "DeleteGroups"
ACCEPT, RELEASE, REJECT = 1, 2, 3
LETTERS = "dlq.letters"


def beat(epoch: int, member: str = "m1", **more: Any) -> Ask:
    """A heartbeat; in epoch 0 the member joins."""
    joins = {"subscribed_topic_names": ["$topic"]} if epoch == 0 else {}
    body = {"group_id": "$group", "member_id": member, "member_epoch": epoch, **joins}
    return Ask(body, api=HEARTBEAT, version=1, mask=("heartbeat_interval_ms",), **more)


def configured(**settings: str) -> Ask:
    """Configure the group. Dots are written as underscores."""
    configs = [
        {"name": name.replace("_", "."), "config_operation": 0, "value": value} for name, value in settings.items()
    ]
    resource = {"resource_type": 32, "resource_name": "$group", "configs": configs}
    return Ask({"resources": [resource]}, api="IncrementalAlterConfigs", version=1, hidden=True, pause_s=0.3)


def on_topic(acknowledged: list[dict[str, Any]] | None = None, **more: Any) -> list[dict[str, Any]]:
    partition = {"partition_index": 0, "acknowledgement_batches": acknowledged or [], **more}
    return [{"topic_id": "$topic.id", "partitions": [partition]}]


def fetch(epoch: int, version: int | None = 2, member: str = "m1", **more: Any) -> Ask:
    body = {
        "group_id": "$group",
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
        "topics": on_topic() if epoch == 0 else [],
    }
    step_fields = {name: more.pop(name) for name in ("hidden", "pause_s") if name in more}
    return Ask({**body, **more}, api=FETCH, version=version, mask=("throttle_time_ms",), **step_fields)


def acknowledge(
    epoch: int, first: int, last: int, *types: int, version: int | None = 2, member: str = "m1", **more: Any
) -> Ask:
    settled = [{"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}]
    body = {"group_id": "$group", "member_id": member, "share_session_epoch": epoch, "topics": on_topic(settled)}
    return Ask(body, api=ACKNOWLEDGE, version=version, **more)


def offsets(version: int | None = 1, group: str = "$group") -> Ask:
    topics = [{"topic_name": "$topic", "partitions": [0]}]
    return Ask({"groups": [{"group_id": group, "topics": topics}]}, api=OFFSETS, version=version)


def alter(offset: int, group: str = "$group", topic: str = "$topic") -> Ask:
    topics = [{"topic_name": topic, "partitions": [{"partition_index": 0, "start_offset": offset}]}]
    return Ask({"group_id": group, "topics": topics}, api=ALTER, version=0)


def forget(topic: str = "$topic") -> Ask:
    return Ask({"group_id": "$group", "topics": [{"topic_name": topic}]}, api=FORGET, version=0)


def describe(group: str = "$group") -> Ask:
    """Kafka gives members what is theirs one heartbeat later."""
    body = {"group_ids": [group], "include_authorized_operations": False}
    later = ("topic_partitions", "group_epoch", "assignment_epoch", "member_epoch")
    return Ask(body, api=DESCRIBE, version=1, mask=later)


def leave() -> Ask:
    return beat(-1, hidden=True)


def on(*steps: Step) -> Iterator[Step]:
    """The steps at share.version 1, with a topic of three records and a member that has its partition."""
    yield from create()
    yield produced(Batch(b"one", b"two", b"three"))
    yield level(1, UPGRADE)
    yield states_topic()
    yield Ask({"key": "$group", "key_type": 0}, api="FindCoordinator", version=3, hidden=True, until=0)
    yield configured(share_auto_offset_reset="earliest")
    yield Ask({"group_ids": ["$group"]}, api=DESCRIBE, version=1, hidden=True, pause_s=0.5)
    yield beat(0, hidden=True, pause_s=0.3)
    yield beat(1, hidden=True, pause_s=2.0)
    yield beat(1, hidden=True, pause_s=1.0)
    yield from steps
    yield level(0, DOWNGRADE)


def letters() -> Ask:
    """The records of the dead letter topic. They have the time at which they were written."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": LETTERS, "partitions": [partition]}]
    body = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, "topics": topics}
    return Ask(body, api="Fetch", version=12, mask=("timestamp", "max_timestamp"), pause_s=3.0)


def acquired() -> tuple[Step, ...]:
    """A session whose member holds the three records."""
    return (fetch(0, hidden=True), fetch(1, hidden=True, pause_s=0.5))


CASES: tuple[Case, ...] = (
    case("share-described", DESCRIBE, on(describe(), describe("nobody"))),
    case("session-epochs", FETCH, on(fetch(3), acknowledge(0, 0, 0, ACCEPT), fetch(0), fetch(7, version=None))),
    case(
        "share-acknowledged",
        ACKNOWLEDGE,
        on(
            *acquired(),
            acknowledge(2, 0, 1, ACCEPT, version=None),
            offsets(),
            acknowledge(3, 2, 1, ACCEPT),
            acknowledge(4, 2, 9, ACCEPT),
            acknowledge(5, 2, 2, 7),
        ),
    ),
    case(
        "share-dead-letters",
        ACKNOWLEDGE,
        on(
            level(2, UPGRADE),
            *create(LETTERS, errors_deadletterqueue_group_enable="true"),
            configured(errors_deadletterqueue_topic_name=LETTERS, errors_deadletterqueue_copy_record_enable="true"),
            *acquired(),
            acknowledge(2, 0, 1, ACCEPT),
            acknowledge(3, 2, 2, REJECT),
            letters(),
            offsets(),
        ),
        versions=(2, 2),
    ),
    case("offsets-of-nobody", OFFSETS, on(offsets(None, "nobody"))),
    case("altered-with-members", ALTER, on(alter(1))),
    case("share-altered", ALTER, on(leave(), alter(1), offsets(), alter(1, topic="no-such-topic"))),
    case("deleted-with-members", FORGET, on(forget())),
    case("share-offsets-deleted", FORGET, on(leave(), forget(), forget(), forget("no-such-topic"))),
)
