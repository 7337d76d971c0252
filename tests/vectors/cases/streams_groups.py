"""Members of streams groups (KIP-1071) at streams.version 1, which each case turns on and off again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.vectors.case import Ask, Case, Step, case, create
from tests.vectors.cases.share_groups import configured
from tests.vectors.cases.share_states import DOWNGRADE, UPGRADE

HEARTBEAT, DESCRIBE, DESCRIPTION = (
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
    "StreamsGroupTopologyDescriptionUpdate",
)
NO_TASKS: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
OWNED = {**NO_TASKS, "active_tasks": [{"subtopology_id": "0", "partitions": [0]}]}


def level(level: int, upgrade_type: int) -> Ask:
    """Set streams.version."""
    update = {"feature": "streams.version", "max_version_level": level, "upgrade_type": upgrade_type}
    body = {"timeout_ms": 30000, "feature_updates": [update]}
    return Ask(body, api="UpdateFeatures", version=1, hidden=True, pause_s=0.3)


def shape(*topics: str, epoch: int = 0, **more: Any) -> dict[str, Any]:
    return {"epoch": epoch, "subtopologies": [{"subtopology_id": "0", "source_topics": list(topics), **more}]}


def beat(epoch: int, member: str = "m1", *, version: int | None = 1, **more: Any) -> Ask:
    """A heartbeat. In epoch 0 the member joins with a topology that reads the case's topic."""
    step = {name: more.pop(name) for name in ("hidden", "pause_s") if name in more}
    body = {"group_id": "$group", "member_id": member, "member_epoch": epoch}
    if epoch == 0:
        body |= {"rebalance_timeout_ms": 30000, "process_id": "p1", "topology": shape("$topic"), **NO_TASKS}
    return Ask({**body, **more}, api=HEARTBEAT, version=version, **step)


def describe(group: str = "$group", *, version: int | None = 1, **more: Any) -> Ask:
    body = {"group_ids": [group], "include_authorized_operations": False, **more}
    return Ask(body, api=DESCRIBE, version=version)


def describe_description(group: str = "$group") -> Ask:
    return describe(group, include_topology_description=True)


def commit(epoch: int, member: str = "m1", version: int = 9) -> Ask:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {
        "group_id": "$group",
        "generation_id_or_member_epoch": epoch,
        "member_id": member,
        "topics": [{"name": "$topic", "partitions": [partition]}],
    }
    return Ask(body, api="OffsetCommit", version=version)


def fetch(epoch: int, member: str | None = "m1") -> Ask:
    topics = [{"name": "$topic", "partition_indexes": [0]}]
    group = {"group_id": "$group", "member_id": member, "member_epoch": epoch, "topics": topics}
    return Ask({"groups": [group], "require_stable": False}, api="OffsetFetch", version=9)


def delete() -> Ask:
    return Ask({"groups_names": ["$group"]}, api="DeleteGroups", version=2)


def on(*steps: Step) -> Iterator[Step]:
    """The steps at streams.version 1, with a topic and a group whose first assignment does not wait."""
    yield from create()
    yield level(1, UPGRADE)
    yield Ask({"key": "$group", "key_type": 0}, api="FindCoordinator", version=3, hidden=True, until=0)
    yield configured(streams_initial_rebalance_delay_ms="0", streams_assignment_interval_ms="0")
    yield Ask({"group_ids": ["$group"]}, api=DESCRIBE, version=1, hidden=True, pause_s=0.5)
    yield from steps
    yield beat(-1, hidden=True)
    yield level(0, DOWNGRADE)


def joined() -> tuple[Step, ...]:
    """A member that has the only task, in epoch 2."""
    return (
        beat(0, hidden=True, pause_s=0.5),
        beat(2, hidden=True, pause_s=0.5, **NO_TASKS),
        beat(2, hidden=True, **OWNED),
    )


CASES: tuple[Case, ...] = (
    case("streams-joined", HEARTBEAT, on(beat(0, version=None, pause_s=0.5), beat(2, version=None, **OWNED))),
    case("streams-without-source", HEARTBEAT, on(beat(0, topology=shape("$topic2")))),
    case(
        "streams-invalid",
        HEARTBEAT,
        on(
            beat(0, topology=None),
            beat(0, active_tasks=None),
            beat(0, rebalance_timeout_ms=-1),
            beat(0, member=""),
            beat(0, topology=shape(epoch=-1)),
            beat(0, topology=shape(source_topic_regex=["a.*"])),
            beat(0, topology=shape("__consumer_offsets")),
            beat(0, topology=shape("a b")),
            beat(-3),
            beat(-2),
            beat(1),
        ),
    ),
    case(
        "streams-epochs",
        HEARTBEAT,
        on(
            *joined(),
            beat(7, **OWNED),
            beat(1, **OWNED),
            beat(2, member="nobody", **OWNED),
            beat(2, **{**OWNED, "standby_tasks": [{"subtopology_id": "9", "partitions": [0]}]}),
            beat(0, member="m2", topology=shape("$topic", epoch=1)),
            beat(-1, member="nobody"),
            beat(-1),
        ),
    ),
    case(
        "streams-described",
        DESCRIBE,
        on(*joined(), describe(version=None), describe_description(), describe("nobody"), describe("")),
    ),
    case(
        "streams-description-refused",
        DESCRIPTION,
        on(
            Ask({"group_id": "$group", "member_id": "m1", "topology_epoch": 0, "topology_description": {}}),
            Ask({"group_id": "", "member_id": "", "topology_epoch": 0, "topology_description": {}}),
        ),
    ),
    case(
        "streams-offsets",
        "OffsetCommit",
        on(
            *joined(),
            commit(2),
            commit(3),
            commit(1),
            commit(2, "nobody"),
            commit(-1, ""),
            commit(2, version=8),
            fetch(2),
            fetch(3),
            fetch(-1, None),
            fetch(2, "nobody"),
        ),
        versions=(9, 9),
    ),
    case("streams-deleted", "DeleteGroups", on(*joined(), delete(), beat(-1, hidden=True), delete()), versions=(2, 2)),
)
