"""Consumer groups (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe, and what other APIs say of them."""

from dataclasses import replace
from typing import Any, Final

from tests.vectors.case import Ask, Step, case, create
from tests.vectors.cases.group_offsets import commit, fetch
from tests.vectors.cases.groups import join_body, joined, leave, sync_body

API = "ConsumerGroupHeartbeat"


def owned(*partitions: int, topic: str = "$topic") -> list[dict[str, Any]]:
    return [{"topic_id": f"{topic}.id", "partitions": list(partitions)}] if partitions else []


def join(member: str = "m1", **more: Any) -> Ask:
    """The first heartbeat of a member. Kafka's coordinator hears of a topic a little later than its broker."""
    return Ask(
        {
            "group_id": "$group",
            "member_id": member,
            "member_epoch": 0,
            "rebalance_timeout_ms": 30000,
            "subscribed_topic_names": ["$topic"],
            "topic_partitions": [],
            **more,
        },
        api=API,
        pause_s=0.03,
    )


def beat(member: str = "m1", epoch: int = 2, **more: Any) -> Ask:
    return Ask({"group_id": "$group", "member_id": member, "member_epoch": epoch, **more}, api=API)


def quiet(step: Ask, version: int = 1) -> Ask:
    """As setup."""
    return Ask(step.body, api=step.api, version=version, hidden=True, pause_s=step.pause_s)


def started(partitions: int = 4, **more: Any) -> tuple[Step, ...]:
    """Setup: a topic, and a member that has all of it in epoch 2, the first in which members have something."""
    return (*create(partitions=partitions), quiet(join(**more)))


def two() -> tuple[Step, ...]:
    """Setup: a second member that waits for what the first has been told to give up."""
    return (*started(), quiet(join("m2")), quiet(beat(topic_partitions=owned(0, 1, 2, 3))))


def pattern(text: str, member: str = "m1", **more: Any) -> Ask:
    """As `join`, with a pattern instead of names. What it matches is assigned after the answer."""
    return join(member, subscribed_topic_regex=text, **{"subscribed_topic_names": None, **more})


def later(step: Ask) -> Ask:
    """Once the pattern has been matched, of which nothing tells."""
    return replace(step, pause_s=0.5)


DESCRIBE = Ask({"group_ids": ["$group"]}, api="ConsumerGroupDescribe", version=1)
CLASSIC_MEMBER = joined()
V1: Final[dict[str, Any]] = {"versions": (1, 1)}
"""Version 0 has no patterns."""

CASES = (
    case("consumer-join", API, create(partitions=2), join(), DESCRIBE),
    case("consumer-join-no-member-id", API, create(), Ask(join("").body, mask=("member_id",))),
    case("consumer-join-empty-group", API, join(group_id="")),
    case("consumer-join-blank-group", API, join(group_id=" ")),
    case("consumer-join-empty-instance", API, join(instance_id="")),
    case("consumer-join-empty-rack", API, join(rack_id="")),
    case("consumer-join-no-timeout", API, join(rebalance_timeout_ms=-1)),
    case("consumer-join-with-partitions", API, create(), join(topic_partitions=owned(0))),
    case("consumer-join-null-partitions", API, join(topic_partitions=None)),
    case("consumer-join-no-subscription", API, join(subscribed_topic_names=None)),
    case("consumer-join-nothing", API, join(subscribed_topic_names=[]), DESCRIBE),
    case("consumer-join-unknown-topic", API, join(), DESCRIBE),
    case("consumer-join-unknown-assignor", API, create(), join(server_assignor="none-such")),
    case("consumer-join-range", API, create(partitions=3), join(server_assignor="range"), DESCRIBE),
    case("consumer-join-twice", API, started(), join(), DESCRIBE),
    case(
        "consumer-join-bad-pattern", API, join(subscribed_topic_regex="(", subscribed_topic_names=None), versions=(1, 1)
    ),
    case("consumer-join-empty-pattern", API, create(), join(subscribed_topic_regex=""), DESCRIBE, versions=(1, 1)),
    case("consumer-join-pattern", API, create(partitions=2), pattern("$topic"), later(beat(epoch=1)), DESCRIBE, **V1),
    case(
        "consumer-join-pattern-and-names",
        API,
        create(partitions=2),
        create("$topic2", partitions=1),
        quiet(pattern("$topic", subscribed_topic_names=["$topic2"])),
        later(quiet(beat())),  # The order of its topics is arbitrary.
        DESCRIBE,
        **V1,
    ),
    case(
        "consumer-join-pattern-of-two-topics",
        API,
        create(partitions=2),
        create("$topic2", partitions=1),
        pattern("consumer-join-pattern-of-two-top[a-z]*-topic2?-1"),
        later(quiet(beat(epoch=1))),
        DESCRIBE,
        **V1,
    ),
    case("consumer-join-pattern-part", API, create(), pattern("consumer-join-pattern-part"), later(DESCRIBE), **V1),
    case("consumer-join-pattern-matches-nothing", API, pattern("$nothing"), later(beat(epoch=1)), DESCRIBE, **V1),
    case(
        "consumer-join-pattern-of-another",
        API,
        create(partitions=2),
        quiet(pattern("$topic")),
        later(quiet(beat(epoch=1))),
        pattern("$topic", "m2"),
        beat(topic_partitions=owned(0, 1)),
        DESCRIBE,
        **V1,
    ),
    case(
        "consumer-pattern-replaced-by-names",
        API,
        create(partitions=2),
        create("$topic2", partitions=1),
        quiet(pattern("$topic")),
        later(quiet(beat(epoch=1))),
        beat(subscribed_topic_regex="", subscribed_topic_names=["$topic2"], topic_partitions=owned(0, 1)),
        DESCRIBE,
        beat(topic_partitions=[]),
        DESCRIBE,
        **V1,
    ),
    case(
        "consumer-pattern-of-who-leaves",
        API,
        create(partitions=2),
        quiet(pattern("$topic")),
        later(quiet(beat(epoch=1))),
        beat(epoch=-1),
        DESCRIBE,
        pattern("$topic", "m2"),
        later(beat("m2", epoch=3)),
        DESCRIBE,
        **V1,
    ),
    case(
        "consumer-pattern-bad-later",
        API,
        started(),
        beat(subscribed_topic_regex="(", topic_partitions=owned(0, 1, 2, 3)),
        beat("who", subscribed_topic_regex="("),
        beat(),
        **V1,
    ),
    case("consumer-join-live-classic", API, create(), joined(protocol_type="connect"), join()),
    case(
        "consumer-join-empty-classic",
        API,
        create(),
        Ask(commit().body, api="OffsetCommit", version=7, hidden=True),
        join(),
        DESCRIBE,
        Ask(fetch(0).body, api="OffsetFetch", version=7),
    ),
    case("consumer-beat", API, started(), beat(), beat(topic_partitions=owned(0, 1, 2, 3))),
    case(
        "consumer-beat-full",
        API,
        started(),
        beat(
            rebalance_timeout_ms=30000,
            subscribed_topic_names=["$topic"],
            topic_partitions=owned(0, 1, 2, 3),
        ),
    ),
    case("consumer-beat-unknown-group", API, beat()),
    case("consumer-beat-unknown-member", API, started(), beat("who")),
    case("consumer-beat-no-member-id", API, started(), beat("")),
    case("consumer-beat-future-epoch", API, started(), beat(epoch=9)),
    case("consumer-beat-bad-epoch", API, started(), beat(epoch=-3)),
    case("consumer-beat-classic-group", API, CLASSIC_MEMBER, beat("$member")),
    case("consumer-beat-unknown-assignor", API, started(), beat(server_assignor="none-such")),
    case("consumer-rebalance", API, two(), DESCRIBE, beat("m2", 3), beat(topic_partitions=owned(0, 1)), DESCRIBE),
    case(
        "consumer-rebalance-done",
        API,
        two(),
        quiet(beat(topic_partitions=owned(0, 1))),
        beat("m2", 3, topic_partitions=[]),
        DESCRIBE,
    ),
    case(
        "consumer-lost-answer",
        API,
        two(),
        quiet(beat(topic_partitions=owned(0, 1))),
        beat(topic_partitions=owned(0, 1)),
        beat(topic_partitions=owned(2)),
        beat(),
    ),
    case(
        "consumer-other-subscription",
        API,
        create(partitions=2),
        create("$topic2", partitions=1),
        quiet(join()),
        beat(subscribed_topic_names=["$topic2"], topic_partitions=owned(0, 1)),
        DESCRIBE,
        beat(topic_partitions=[]),
        DESCRIBE,
    ),
    case("consumer-leave", API, started(), beat(epoch=-1), DESCRIBE),
    case("consumer-leave-unknown-group", API, beat(epoch=-1)),
    case("consumer-leave-unknown-member", API, started(), beat("who", epoch=-1)),
    case("consumer-leave-no-member-id", API, started(), beat("", epoch=-1)),
    case("consumer-leave-for-a-while-no-instance", API, started(), beat(epoch=-2)),
    case(
        "consumer-static",
        API,
        started(instance_id="i1"),
        beat(epoch=-2, instance_id="i1"),
        DESCRIBE,
        join("m2", instance_id="i1"),
        DESCRIBE,
        beat(instance_id="i1"),
    ),
    case("consumer-static-held", API, started(instance_id="i1"), join("m2", instance_id="i1")),
    case("consumer-static-unknown", API, started(), beat(instance_id="i9")),
    case("consumer-static-fenced", API, started(instance_id="i1"), beat("m2", instance_id="i1")),
    case("consumer-static-leave", API, started(instance_id="i1"), beat(epoch=-1, instance_id="i1"), DESCRIBE),
    case("consumer-static-leave-fenced", API, started(instance_id="i1"), beat("m2", epoch=-1, instance_id="i1")),
    case("consumer-describe", "ConsumerGroupDescribe", two(), Ask({"group_ids": ["$group"]})),
    case(
        "consumer-describe-operations",
        "ConsumerGroupDescribe",
        started(),
        Ask({"group_ids": ["$group"], "include_authorized_operations": True}),
    ),
    case("consumer-describe-unknown", "ConsumerGroupDescribe", Ask({"group_ids": ["$group"]})),
    case("consumer-describe-classic", "ConsumerGroupDescribe", CLASSIC_MEMBER, Ask({"group_ids": ["$group"]})),
    case("consumer-describe-nothing", "ConsumerGroupDescribe", Ask({"group_ids": []})),
    case("consumer-describe-empty-name", "ConsumerGroupDescribe", Ask({"group_ids": [""]})),
    case("consumer-described-as-classic", "DescribeGroups", started(), Ask({"groups": ["$group"]})),
    case("consumer-delete", "DeleteGroups", started(), Ask({"groups_names": ["$group"]})),
    case(
        "consumer-delete-empty",
        "DeleteGroups",
        started(),
        quiet(beat(epoch=-1)),
        Ask({"groups_names": ["$group"]}),
        DESCRIBE,
    ),
    case("consumer-commit", "OffsetCommit", started(), commit(member="m1", generation=2)),
    case("consumer-commit-alone", "OffsetCommit", started(), commit()),
    case("consumer-commit-unknown-member", "OffsetCommit", started(), commit(member="who", generation=2)),
    case("consumer-commit-future-epoch", "OffsetCommit", started(), commit(member="m1", generation=7)),
    case(
        "consumer-commit-older-epoch",
        "OffsetCommit",
        two(),
        quiet(beat(topic_partitions=owned(0, 1))),
        commit(member="m1", generation=2),
        commit(member="m1", generation=2, index=3),
        commit(member="m2", generation=2, index=3),
    ),
    case("consumer-fetch", "OffsetFetch", started(), fetch(0, member_id="m1", member_epoch=2), versions=(9, 10)),
    case("consumer-fetch-alone", "OffsetFetch", started(), fetch(0)),
    case(
        "consumer-fetch-unknown-member",
        "OffsetFetch",
        started(),
        fetch(0, member_id="who", member_epoch=2),
        versions=(9, 10),
    ),
    case(
        "consumer-fetch-other-epoch",
        "OffsetFetch",
        started(),
        fetch(0, member_id="m1", member_epoch=0),
        versions=(9, 10),
    ),
    case(
        "consumer-offset-delete",
        "OffsetDelete",
        started(),
        Ask({"group_id": "$group", "topics": [{"name": "$topic", "partitions": [{"partition_index": 0}]}]}),
    ),
    case(
        "consumer-heartbeat-of-classic",
        "Heartbeat",
        started(),
        Ask({"group_id": "$group", "generation_id": 1, "member_id": "m1"}),
    ),
    case("consumer-sync-of-classic", "SyncGroup", started(), Ask(sync_body("m1"))),
    case("consumer-leave-of-classic", "LeaveGroup", started(), leave("m1")),
    case(
        "consumer-group-becomes-classic",
        "JoinGroup",
        started(),
        quiet(beat(epoch=-1)),
        Ask(join_body(), save={"member": "member_id"}),
        Ask({"groups": ["$group"]}, api="DescribeGroups", version=5),
        versions=(3, 3),
    ),
)
