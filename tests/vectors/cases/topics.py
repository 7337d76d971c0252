"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords."""

from typing import Any

from tests.vectors.case import Ask, Settle, case, create, produced
from tests.vectors.plain import Batch


def topic(name: str = "$topic", partitions: int = 1, replication: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replication, **more}


def creating(*topics: dict[str, Any], **more: Any) -> Ask:
    return Ask({"topics": list(topics), "timeout_ms": 30000, **more})


def config(name: str, value: str | None) -> list[dict[str, Any]]:
    return [{"name": name, "value": value}]


def deleting(*names: str, **more: Any) -> Ask:
    return Ask({"topics": [{"name": name} for name in names], "topic_names": list(names), "timeout_ms": 30000, **more})


SEE = Ask({"topics": [{"name": "$topic"}], "allow_auto_topic_creation": False}, api="Metadata", version=12)
RECORDS = Batch(b"a", b"b", b"c", b"d", b"e")


def records_deleted(*pairs: tuple[int, int], name: str = "$topic") -> Ask:
    return Ask(
        {
            "topics": [
                {"name": name, "partitions": [{"partition_index": index, "offset": offset} for index, offset in pairs]}
            ],
            "timeout_ms": 10000,
        }
    )


def growing(count: int, name: str = "$topic", **more: Any) -> dict[str, Any]:
    return {"topics": [{"name": name, "count": count, "assignments": None, **more}], "timeout_ms": 30000}


CASES = (
    case("create", "CreateTopics", creating(topic(partitions=3)), Settle(), SEE),
    case(
        "create-defaults",
        "CreateTopics",
        creating(topic(partitions=-1, replication=-1)),
        Settle(),
        SEE,
        versions=(4, 7),
    ),
    case("create-none", "CreateTopics", creating()),
    case("create-two", "CreateTopics", creating(topic(), topic("$topic2", 2))),
    case("create-exists", "CreateTopics", create(), creating(topic())),
    case("create-same-twice", "CreateTopics", creating(topic(), topic())),
    case("create-validate-only", "CreateTopics", creating(topic(partitions=2), validate_only=True), SEE),
    case("create-zero-partitions", "CreateTopics", creating(topic(partitions=0))),
    case("create-negative-partitions", "CreateTopics", creating(topic(partitions=-2))),
    case("create-zero-replication", "CreateTopics", creating(topic(replication=0))),
    case("create-too-replicated", "CreateTopics", creating(topic(replication=2))),
    case(
        "create-bad-names",
        "CreateTopics",
        creating(topic(""), topic("."), topic(".."), topic("a/b"), topic("ü"), topic("x" * 250), topic("with space")),
    ),
    case("create-longest-name", "CreateTopics", creating(topic("y" * 249), validate_only=True)),
    case("create-internal-name", "CreateTopics", creating(topic("__cluster_metadata"), validate_only=True)),
    case("create-config", "CreateTopics", creating(topic(configs=config("retention.ms", "1000")))),
    case("create-null-config", "CreateTopics", creating(topic(configs=config("retention.ms", None)))),
    case("create-unknown-config", "CreateTopics", creating(topic(configs=config("no.such", "1")))),
    case("create-bad-config", "CreateTopics", creating(topic(configs=config("retention.ms", "soon")))),
    case("create-config-out-of-range", "CreateTopics", creating(topic(configs=config("segment.bytes", "1")))),
    case("create-bad-cleanup-policy", "CreateTopics", creating(topic(configs=config("cleanup.policy", "shred")))),
    case(
        "create-assigned",
        "CreateTopics",
        creating(
            topic(
                partitions=-1,
                replication=-1,
                assignments=[{"partition_index": 0, "broker_ids": [1]}, {"partition_index": 1, "broker_ids": [1]}],
            )
        ),
        Settle(),
        SEE,
    ),
    case(
        "create-assigned-and-counted",
        "CreateTopics",
        creating(topic(assignments=[{"partition_index": 0, "broker_ids": [1]}])),
    ),
    case(
        "create-assigned-gap",
        "CreateTopics",
        creating(topic(partitions=-1, replication=-1, assignments=[{"partition_index": 1, "broker_ids": [1]}])),
    ),
    case(
        "create-assigned-unknown-broker",
        "CreateTopics",
        creating(topic(partitions=-1, replication=-1, assignments=[{"partition_index": 0, "broker_ids": [9]}])),
    ),
    case(
        "create-assigned-twice",
        "CreateTopics",
        creating(topic(partitions=-1, replication=-1, assignments=[{"partition_index": 0, "broker_ids": [1, 1]}])),
    ),
    case(
        "create-assigned-nobody",
        "CreateTopics",
        creating(topic(partitions=-1, replication=-1, assignments=[{"partition_index": 0, "broker_ids": []}])),
    ),
    case(
        "create-negative-timeout",
        "CreateTopics",
        Ask(
            {"topics": [topic()], "timeout_ms": -1},
            mask=("error_code", "topic_id", "num_partitions", "replication_factor", "configs"),
        ),
    ),
    case("delete", "DeleteTopics", create(), deleting("$topic"), Settle(gone=True), SEE),
    case("delete-none", "DeleteTopics", deleting()),
    case("delete-unknown", "DeleteTopics", deleting("$topic")),
    case("delete-twice", "DeleteTopics", create(), deleting("$topic", "$topic")),
    case(
        "delete-by-id",
        "DeleteTopics",
        create(),
        Ask({"topics": [{"name": None, "topic_id": "$topic.id"}], "timeout_ms": 30000}),
        versions=(6, 6),
    ),
    case(
        "delete-unknown-id",
        "DeleteTopics",
        Ask({"topics": [{"name": None, "topic_id": b"0123456789abcdef"}], "timeout_ms": 30000}),
        versions=(6, 6),
    ),
    case(
        "delete-name-and-id",
        "DeleteTopics",
        create(),
        Ask({"topics": [{"name": "$topic", "topic_id": "$topic.id"}], "timeout_ms": 30000}),
        versions=(6, 6),
    ),
    case(
        "delete-nothing-named",
        "DeleteTopics",
        Ask({"topics": [{"name": None, "topic_id": bytes(16)}], "timeout_ms": 30000}),
        versions=(6, 6),
    ),
    case(
        "grow",
        "CreatePartitions",
        create(),
        Ask(growing(3)),
        Ask({"topics": [{"name": "$topic"}]}, api="Metadata", version=12, hidden=True),
    ),
    case("grow-validate-only", "CreatePartitions", create(), Ask({**growing(3), "validate_only": True}), SEE),
    case("grow-same", "CreatePartitions", create(partitions=2), Ask(growing(2))),
    case("grow-less", "CreatePartitions", create(partitions=2), Ask(growing(1))),
    case("grow-zero", "CreatePartitions", create(), Ask(growing(0))),
    case("grow-negative", "CreatePartitions", create(), Ask(growing(-1))),
    case("grow-unknown", "CreatePartitions", Ask(growing(3))),
    case("grow-twice", "CreatePartitions", create(), Ask({"topics": growing(2)["topics"] * 2, "timeout_ms": 30000})),
    case("grow-assigned", "CreatePartitions", create(), Ask(growing(2, assignments=[{"broker_ids": [1]}]))),
    case("grow-assigned-too-few", "CreatePartitions", create(), Ask(growing(3, assignments=[{"broker_ids": [1]}]))),
    case(
        "grow-assigned-unknown-broker", "CreatePartitions", create(), Ask(growing(2, assignments=[{"broker_ids": [7]}]))
    ),
    case(
        "grow-assigned-two-replicas",
        "CreatePartitions",
        create(),
        Ask(growing(2, assignments=[{"broker_ids": [1, 7]}])),
    ),
    case(
        "delete-records",
        "DeleteRecords",
        create(),
        produced(RECORDS),
        records_deleted((0, 3)),
        records_deleted((0, 2)),
        records_deleted((0, -1)),
    ),
    case("delete-records-beyond", "DeleteRecords", create(), produced(RECORDS), records_deleted((0, 6))),
    case("delete-records-negative", "DeleteRecords", create(), produced(RECORDS), records_deleted((0, -2))),
    case("delete-records-unknown", "DeleteRecords", records_deleted((0, 1))),
    case("delete-records-unknown-partition", "DeleteRecords", create(), records_deleted((0, 0), (5, 0))),
    case("delete-records-compacted", "DeleteRecords", create(cleanup_policy="compact"), records_deleted((0, 0))),
    case("delete-records-none", "DeleteRecords", Ask({"topics": [], "timeout_ms": 1000})),
)
