"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups."""

from typing import Any

from tests.vectors.case import Ask, Receive, Step, case

PROTOCOLS = [{"name": "range", "metadata": b"sub"}]
TWO_PROTOCOLS = [{"name": "round", "metadata": b"sub"}, {"name": "range", "metadata": b"sub"}]


def join_body(member: str = "", **more: Any) -> dict[str, Any]:
    return {
        "group_id": "$group",
        "session_timeout_ms": 30000,
        "rebalance_timeout_ms": 30000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
        **more,
    }


def joined(**more: Any) -> tuple[Step, ...]:
    """Setup: one member, alone, in generation 1, assigned by itself. It is $member."""
    return (
        Ask(join_body(**more), api="JoinGroup", version=3, save={"member": "member_id"}, hidden=True),
        Ask(sync_body("$member"), api="SyncGroup", version=2, hidden=True),
    )


def sync_body(member: str, generation: int = 1, assignment: bytes = b"mine", **more: Any) -> dict[str, Any]:
    assignments = [{"member_id": member, "assignment": assignment}]
    return {
        "group_id": "$group",
        "generation_id": generation,
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": assignments,
        **more,
    }


def heartbeat(member: str = "$member", generation: int = 1, **more: Any) -> Ask:
    return Ask({"group_id": "$group", "generation_id": generation, "member_id": member, **more})


def leave(member: str = "$member", **more: Any) -> Ask:
    return Ask({"group_id": "$group", "member_id": member, "members": [{"member_id": member, **more}]})


REBALANCE_IN_PROGRESS = 27
DESCRIBE = Ask({"groups": ["$group"]}, api="DescribeGroups", version=5)
ID = {"member": "member_id"}

CASES = (
    case("list-of-states", "ListGroups", joined(), Ask({"states_filter": ["Stable"], "types_filter": []})),
    case("join-without-id", "JoinGroup", Ask(join_body(), save=ID)),
    case(
        "join-with-given-id",
        "JoinGroup",
        Ask(join_body(), save=ID),
        Ask(join_body("$member")),
        DESCRIBE,
        versions=(4, 9),
    ),
    case("join-unknown-id", "JoinGroup", Ask(join_body("who"))),
    case("join-empty-group", "JoinGroup", Ask(join_body(group_id=""), mask=("member_id",))),
    case("join-short-session", "JoinGroup", Ask(join_body(session_timeout_ms=1), mask=("member_id",))),
    case("join-long-session", "JoinGroup", Ask(join_body(session_timeout_ms=2_000_000), mask=("member_id",))),
    case("join-no-protocols", "JoinGroup", Ask(join_body(protocols=[]), mask=("member_id",))),
    case("join-no-protocol-type", "JoinGroup", Ask(join_body(protocol_type=""), mask=("member_id",))),
    case(
        "join-other-protocol-type",
        "JoinGroup",
        joined(),
        Ask(join_body(protocol_type="connect"), on="b", mask=("member_id",)),
    ),
    case(
        "join-other-protocols",
        "JoinGroup",
        joined(),
        Ask(join_body(protocols=[{"name": "other", "metadata": b""}]), on="b", mask=("member_id",)),
    ),
    case("join-again-same", "JoinGroup", joined(), Ask(join_body("$member"), save=ID)),
    case("join-static", "JoinGroup", Ask(join_body(group_instance_id="i1"), save=ID), DESCRIBE, versions=(5, 9)),
    case(
        "join-static-again",
        "JoinGroup",
        Ask(join_body(group_instance_id="i1"), save={"old": "member_id"}, hidden=True),
        Ask(sync_body("$old", group_instance_id="i1"), api="SyncGroup", version=3, hidden=True),
        Ask(join_body(group_instance_id="i1"), on="b", save=ID),
        DESCRIBE,
        Ask(
            {"group_id": "$group", "generation_id": 1, "member_id": "$old", "group_instance_id": "i1"},
            api="Heartbeat",
            version=3,
        ),
        versions=(5, 9),
    ),
    case("join-static-wrong-member", "JoinGroup", Ask(join_body("who", group_instance_id="i1")), versions=(5, 9)),
    case(
        "join-two-members",
        "JoinGroup",
        joined(protocols=TWO_PROTOCOLS),
        Ask(join_body(), api="JoinGroup", version=3, on="b", later=True),
        Ask(
            {"group_id": "$group", "generation_id": 1, "member_id": "$member"},
            api="Heartbeat",
            version=2,
            until=REBALANCE_IN_PROGRESS,
            hidden=True,
        ),
        Ask(join_body("$member", protocols=TWO_PROTOCOLS), api="JoinGroup", version=3, on="a", mask=("members",)),
        Receive("b", save={"second": "member_id"}),
        DESCRIBE,
        versions=(3, 3),
    ),
    case(
        "sync",
        "SyncGroup",
        Ask(join_body(), api="JoinGroup", version=3, save=ID, hidden=True),
        Ask(sync_body("$member")),
        DESCRIBE,
    ),
    case("sync-again", "SyncGroup", joined(), Ask(sync_body("$member", assignment=b"other"))),
    case("sync-unknown-group", "SyncGroup", Ask(sync_body("who"))),
    case("sync-empty-group", "SyncGroup", Ask(sync_body("who", group_id=""))),
    case("sync-unknown-member", "SyncGroup", joined(), Ask(sync_body("who"))),
    case("sync-old-generation", "SyncGroup", joined(), Ask(sync_body("$member", generation=0))),
    case(
        "sync-wrong-protocol-type",
        "SyncGroup",
        joined(),
        Ask(sync_body("$member", protocol_type="connect")),
        versions=(5, 5),
    ),
    case(
        "sync-wrong-protocol-name",
        "SyncGroup",
        joined(),
        Ask(sync_body("$member", protocol_name="other")),
        versions=(5, 5),
    ),
    case("heartbeat", "Heartbeat", joined(), heartbeat()),
    case("heartbeat-unknown-group", "Heartbeat", heartbeat("who")),
    case("heartbeat-empty-group", "Heartbeat", heartbeat("who", group_id="")),
    case("heartbeat-unknown-member", "Heartbeat", joined(), heartbeat("who")),
    case("heartbeat-old-generation", "Heartbeat", joined(), heartbeat(generation=0)),
    case(
        "heartbeat-before-sync",
        "Heartbeat",
        Ask(join_body(), api="JoinGroup", version=3, save=ID, hidden=True),
        heartbeat(),
    ),
    case("heartbeat-unknown-instance", "Heartbeat", joined(), heartbeat(group_instance_id="i9"), versions=(3, 4)),
    case("leave", "LeaveGroup", joined(), leave(), DESCRIBE),
    case("leave-twice", "LeaveGroup", joined(), leave(), leave()),
    case("leave-unknown-group", "LeaveGroup", leave("who")),
    case(
        "leave-empty-group", "LeaveGroup", Ask({"group_id": "", "member_id": "who", "members": [{"member_id": "who"}]})
    ),
    case("leave-unknown-member", "LeaveGroup", joined(), leave("who")),
    case("leave-nobody", "LeaveGroup", joined(), Ask({"group_id": "$group", "members": []}), versions=(3, 5)),
    case(
        "leave-by-instance",
        "LeaveGroup",
        Ask(join_body(group_instance_id="i1"), api="JoinGroup", version=5, hidden=True),
        leave("", group_instance_id="i1"),
        versions=(3, 5),
    ),
    case(
        "describe-stable",
        "DescribeGroups",
        joined(),
        Ask({"groups": ["$group"], "include_authorized_operations": True}),
    ),
    case("describe-unknown", "DescribeGroups", Ask({"groups": ["$group"]})),
    case("describe-empty-name", "DescribeGroups", Ask({"groups": [""]})),
    case("describe-two", "DescribeGroups", joined(), Ask({"groups": ["$group", "$group2"]})),
    case("describe-nothing", "DescribeGroups", Ask({"groups": []})),
    case(
        "describe-empty",
        "DescribeGroups",
        joined(),
        Ask({"group_id": "$group", "member_id": "$member"}, api="LeaveGroup", version=2, hidden=True),
        Ask({"groups": ["$group"]}),
    ),
    case("list-of-a-state-unknown", "ListGroups", Ask({"states_filter": ["NoSuchState"]}), versions=(4, 5)),
    case("list-of-a-type-unknown", "ListGroups", Ask({"types_filter": ["nosuchtype"]}), versions=(5, 5)),
    case("list-of-share-groups", "ListGroups", Ask({"types_filter": ["share"]}), versions=(5, 5)),
    case("delete-stable", "DeleteGroups", joined(), Ask({"groups_names": ["$group"]})),
    case(
        "delete-empty",
        "DeleteGroups",
        joined(),
        Ask({"group_id": "$group", "member_id": "$member"}, api="LeaveGroup", version=2, hidden=True),
        Ask({"groups_names": ["$group"]}),
        DESCRIBE,
    ),
    case("delete-group-unknown", "DeleteGroups", Ask({"groups_names": ["$group"]})),
    case("delete-nothing", "DeleteGroups", Ask({"groups_names": []})),
    case("delete-empty-name", "DeleteGroups", Ask({"groups_names": [""]})),
)
