"""OffsetCommit, OffsetFetch, OffsetDelete."""

import struct
from typing import Any

from tests.vectors.case import Ask, case, create
from tests.vectors.cases.groups import joined


def commit(
    offset: int = 5,
    member: str = "",
    generation: int = -1,
    topic: str = "$topic",
    index: int = 0,
    metadata: str | None = "note",
    **more: Any,
) -> Ask:
    partitions = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": 0,
            "committed_metadata": metadata,
        }
    ]
    return Ask(
        {
            "group_id": "$group",
            "generation_id_or_member_epoch": generation,
            "member_id": member,
            "topics": [{"name": topic, "topic_id": f"{topic}.id", "partitions": partitions}],
            **more,
        }
    )


def subscription(topic: str) -> bytes:
    """What consumers put into JoinGroup: version 0, topics, no user data."""
    return struct.pack(f">hih{len(topic)}si", 0, 1, len(topic), topic.encode(), -1)


def setup(ask: Ask) -> Ask:
    return Ask(ask.body, api="OffsetCommit", version=7, hidden=True)


def fetch(*indexes: int, topic: str = "$topic", **more: Any) -> Ask:
    one = {"name": topic, "topic_id": f"{topic}.id", "partition_indexes": list(indexes)}
    return Ask(
        {
            "group_id": "$group",
            "topics": [{"name": topic, "partition_indexes": list(indexes)}],
            "groups": [{"group_id": "$group", "topics": [one], **more}],
        }
    )


ALL = Ask({"group_id": "$group", "topics": None, "groups": [{"group_id": "$group", "topics": None}]})
SEE = Ask(
    {"group_id": "$group", "topics": [{"name": "$topic", "partition_indexes": [0]}]}, api="OffsetFetch", version=7
)
DELETE = Ask({"group_id": "$group", "topics": [{"name": "$topic", "partitions": [{"partition_index": 0}]}]})

CASES = (
    case("commit-alone", "OffsetCommit", create(), commit(), SEE),
    case("commit-as-member", "OffsetCommit", create(), joined(), commit(member="$member", generation=1), SEE),
    case("commit-twice", "OffsetCommit", create(), commit(5), commit(3), SEE),
    case("commit-no-metadata", "OffsetCommit", create(), commit(metadata=None), SEE),
    case("commit-long-metadata", "OffsetCommit", create(), commit(metadata="m" * 4097), SEE),
    case("commit-negative", "OffsetCommit", create(), commit(-1), SEE),
    case("commit-unknown-topic", "OffsetCommit", commit()),
    case("commit-unknown-partition", "OffsetCommit", create(), commit(index=9)),
    case("commit-unknown-member", "OffsetCommit", create(), joined(), commit(member="who", generation=1)),
    case("commit-old-generation", "OffsetCommit", create(), joined(), commit(member="$member", generation=0)),
    case("commit-alone-to-live-group", "OffsetCommit", create(), joined(), commit()),
    case("commit-member-of-nothing", "OffsetCommit", create(), commit(member="who", generation=3)),
    case("commit-empty-group", "OffsetCommit", create(), commit(group_id="")),
    case("commit-nothing", "OffsetCommit", Ask({"group_id": "$group", "topics": []})),
    case("commit-with-instance", "OffsetCommit", create(), commit(group_instance_id="i1"), versions=(7, 10)),
    case("fetch", "OffsetFetch", create(partitions=2), setup(commit()), fetch(0, 1)),
    case("fetch-all", "OffsetFetch", create(partitions=2), setup(commit()), ALL, versions=(2, 10)),
    case("fetch-all-of-nothing", "OffsetFetch", ALL, versions=(2, 10)),
    case(
        "fetch-nothing",
        "OffsetFetch",
        Ask({"group_id": "$group", "topics": [], "groups": [{"group_id": "$group", "topics": []}]}),
    ),
    case("fetch-unknown-group", "OffsetFetch", create(), fetch(0)),
    case("fetch-unknown-topic", "OffsetFetch", fetch(0)),
    case(
        "fetch-empty-group",
        "OffsetFetch",
        Ask({"group_id": "", "topics": [], "groups": [{"group_id": "", "topics": []}]}),
    ),
    case(
        "fetch-stable",
        "OffsetFetch",
        create(),
        setup(commit()),
        Ask({**fetch(0).body, "require_stable": True}),
        versions=(7, 10),
    ),  # type: ignore[dict-item]
    case(
        "fetch-as-member-of-nothing",
        "OffsetFetch",
        create(),
        fetch(0, member_id="who", member_epoch=3),
        versions=(9, 10),
    ),
    case(
        "fetch-two-groups",
        "OffsetFetch",
        create(),
        setup(commit()),
        Ask({"groups": [{"group_id": "$group", "topics": None}, {"group_id": "$group2", "topics": None}]}),
        versions=(8, 10),
    ),
    case("fetch-no-groups", "OffsetFetch", Ask({"groups": []}), versions=(8, 10)),
    case("delete-offset", "OffsetDelete", create(), setup(commit()), DELETE, SEE),
    case("delete-unknown-group", "OffsetDelete", create(), DELETE),
    case("delete-empty-group", "OffsetDelete", create(), Ask({"group_id": "", "topics": []})),
    case(
        "delete-never-committed",
        "OffsetDelete",
        create(),
        setup(commit()),
        Ask({"group_id": "$group", "topics": [{"name": "$topic2", "partitions": [{"partition_index": 3}]}]}),
    ),
    case(
        "delete-subscribed",
        "OffsetDelete",
        create(),
        joined(protocols=[{"name": "range", "metadata": subscription("delete-subscribed-topic-0")}]),
        setup(commit(member="$member", generation=1)),
        DELETE,
        SEE,
    ),
    case(
        "delete-of-live-group",
        "OffsetDelete",
        create(),
        joined(),
        setup(commit(member="$member", generation=1)),
        DELETE,
    ),
)
