"""Requests of share groups and streams groups while share.version and streams.version are 0."""

from tests.vectors.case import Ask, case

SHARE = Ask(
    {"group_id": "$group", "member_id": "m1", "member_epoch": 0, "subscribed_topic_names": ["$topic"]},
    api="ShareGroupHeartbeat",
)
STREAMS = Ask(
    {
        "group_id": "$group",
        "member_id": "m1",
        "member_epoch": 0,
        "rebalance_timeout_ms": 30000,
        "topology": {"epoch": 0, "subtopologies": []},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    },
    api="StreamsGroupHeartbeat",
)

CASES = (
    case("share-group-unserved", "ShareGroupHeartbeat", SHARE),
    case("streams-group-unserved", "StreamsGroupHeartbeat", STREAMS),
    case("streams-describe-unserved", "StreamsGroupDescribe", Ask({"group_ids": ["$group"]})),
    case(
        "streams-topology-unserved",
        "StreamsGroupTopologyDescriptionUpdate",
        Ask(
            {
                "group_id": "$group",
                "member_id": "m1",
                "topology_epoch": 0,
                "topology_description": {"subtopologies": [], "global_stores": []},
            }
        ),
    ),
)
