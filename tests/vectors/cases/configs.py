"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from typing import Any

from tests.vectors.case import Ask, Settle, case, create

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(kind: int, name: str, keys: list[str] | None = None, **more: Any) -> Ask:
    return Ask({"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}], **more})


def see(name: str, *keys: str, kind: int = TOPIC) -> Ask:
    """What is in force after a change."""
    body = {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}],
        "include_synonyms": True,
    }
    return Ask(body, api="DescribeConfigs", version=4, pause_s=0.2)


def change(kind: int, name: str, *operations: tuple[str, int, str | None], **more: Any) -> Ask:
    settings = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in operations]
    return Ask({"resources": [{"resource_type": kind, "resource_name": name, "configs": settings}], **more})


def replace(kind: int, name: str, **settings: str | None) -> Ask:
    return Ask(
        {
            "resources": [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [{"name": key.replace("_", "."), "value": value} for key, value in settings.items()],
                }
            ]
        }
    )


INCREMENTAL = "IncrementalAlterConfigs"
POLICY = "cleanup.policy"

CASES = (
    case(
        "topic-all",
        "DescribeConfigs",
        create(retention_ms="86400000"),
        describe(TOPIC, "$topic", include_synonyms=True),
    ),
    case("topic-some", "DescribeConfigs", create(), describe(TOPIC, "$topic", ["retention.ms", "no.such", POLICY])),
    case("topic-none", "DescribeConfigs", create(), describe(TOPIC, "$topic", [])),
    case(
        "topic-documented",
        "DescribeConfigs",
        create(),
        describe(TOPIC, "$topic", ["retention.ms"], include_documentation=True),
        versions=(3, 4),
    ),
    case("topic-unknown", "DescribeConfigs", describe(TOPIC, "$topic")),
    case("topic-bad-name", "DescribeConfigs", describe(TOPIC, "a/b"), describe(TOPIC, "")),
    case(
        "broker-some",
        "DescribeConfigs",
        describe(
            BROKER,
            "1",
            ["log.retention.ms", "num.partitions", "log.segment.bytes", "min.insync.replicas"],
            include_synonyms=True,
        ),
    ),
    case("broker-default", "DescribeConfigs", describe(BROKER, "", include_synonyms=True)),
    case("broker-other", "DescribeConfigs", describe(BROKER, "7")),
    case("broker-not-a-number", "DescribeConfigs", describe(BROKER, "one")),
    case("group-all", "DescribeConfigs", describe(GROUP, "$group", include_synonyms=True)),
    case("group-empty", "DescribeConfigs", describe(GROUP, "")),
    case("client-metrics", "DescribeConfigs", describe(CLIENT_METRICS, "$metrics")),
    case("unknown-type", "DescribeConfigs", describe(99, "$topic")),
    case("no-resources", "DescribeConfigs", Ask({"resources": []})),
    case(
        "set",
        INCREMENTAL,
        create(),
        change(TOPIC, "$topic", ("retention.ms", SET, "1234567")),
        Settle(),
        see("$topic", "retention.ms"),
    ),
    case(
        "set-and-delete",
        INCREMENTAL,
        create(retention_ms="5555555"),
        change(TOPIC, "$topic", ("retention.ms", DELETE, None)),
        see("$topic", "retention.ms"),
    ),
    case("append", INCREMENTAL, create(), change(TOPIC, "$topic", (POLICY, APPEND, "compact")), see("$topic", POLICY)),
    case(
        "subtract",
        INCREMENTAL,
        create(cleanup_policy="delete,compact"),
        change(TOPIC, "$topic", (POLICY, SUBTRACT, "delete")),
        see("$topic", POLICY),
    ),
    case("append-to-number", INCREMENTAL, create(), change(TOPIC, "$topic", ("retention.ms", APPEND, "5"))),
    case("delete-unset", INCREMENTAL, create(), change(TOPIC, "$topic", ("retention.ms", DELETE, None))),
    case("set-null", INCREMENTAL, create(), change(TOPIC, "$topic", ("retention.ms", SET, None))),
    case(
        "set-twice",
        INCREMENTAL,
        create(),
        change(TOPIC, "$topic", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    ),
    case("set-unknown-key", INCREMENTAL, create(), change(TOPIC, "$topic", ("no.such", SET, "1"))),
    case("set-bad-value", INCREMENTAL, create(), change(TOPIC, "$topic", ("retention.ms", SET, "soon"))),
    case("set-out-of-range", INCREMENTAL, create(), change(TOPIC, "$topic", ("min.insync.replicas", SET, "0"))),
    case("unknown-operation", INCREMENTAL, create(), change(TOPIC, "$topic", ("retention.ms", 9, "1"))),
    case(
        "set-validate-only",
        INCREMENTAL,
        create(),
        change(TOPIC, "$topic", ("retention.ms", SET, "99"), validate_only=True),
        see("$topic", "retention.ms"),
    ),
    case("set-on-unknown-topic", INCREMENTAL, change(TOPIC, "$topic", ("retention.ms", SET, "1"))),
    case(
        "set-on-broker",
        INCREMENTAL,
        change(BROKER, "1", ("log.cleaner.threads", SET, "2")),
        change(BROKER, "1", ("log.cleaner.threads", DELETE, None)),
    ),
    case(
        "set-on-all-brokers",
        INCREMENTAL,
        change(BROKER, "", ("log.cleaner.threads", SET, "2")),
        change(BROKER, "", ("log.cleaner.threads", DELETE, None)),
    ),
    case(
        "set-cordons-on-broker",
        INCREMENTAL,
        change(BROKER, "1", ("cordoned.log.dirs", SET, "/no/such,/nor/this")),
        change(BROKER, "1", ("cordoned.log.dirs", SET, "*,/no/such")),
        change(BROKER, "", ("cordoned.log.dirs", SET, "*")),
        change(BROKER, "1", ("cordoned.log.dirs", SET, "*")),
        change(BROKER, "1", ("cordoned.log.dirs", APPEND, "/no/such")),
        change(BROKER, "1", ("cordoned.log.dirs", DELETE, None)),
    ),
    case("set-read-only-on-broker", INCREMENTAL, change(BROKER, "1", ("node.id", SET, "2"))),
    case(
        "set-unknown-on-broker",
        INCREMENTAL,
        change(BROKER, "1", ("no.such", SET, "2")),
        change(BROKER, "1", ("no.such", DELETE, None)),
    ),
    case(
        "set-on-other-broker", INCREMENTAL, change(BROKER, "7", ("log.cleaner.threads", SET, "2"), validate_only=True)
    ),
    case("set-on-broker-not-a-number", INCREMENTAL, change(BROKER, "one", ("log.cleaner.threads", SET, "2"))),
    case(
        "set-on-group",
        INCREMENTAL,
        change(GROUP, "$group", ("consumer.session.timeout.ms", SET, "50000")),
        see("$group", "consumer.session.timeout.ms", kind=GROUP),
    ),
    case("set-bad-on-group", INCREMENTAL, change(GROUP, "$group", ("consumer.session.timeout.ms", SET, "1"))),
    case("unknown-resource-type", INCREMENTAL, change(99, "$topic", ("x", SET, "1"))),
    case("no-changes", INCREMENTAL, create(), change(TOPIC, "$topic")),
    case("nothing-at-all", INCREMENTAL, Ask({"resources": []})),
    case(
        "replace",
        "AlterConfigs",
        create(retention_ms="5555555"),
        replace(TOPIC, "$topic", segment_ms="77777"),
        see("$topic", "retention.ms", "segment.ms"),
    ),
    case("replace-null", "AlterConfigs", create(), replace(TOPIC, "$topic", retention_ms=None)),
    case("replace-bad-value", "AlterConfigs", create(), replace(TOPIC, "$topic", retention_ms="soon")),
    case("replace-unknown-key", "AlterConfigs", create(), replace(TOPIC, "$topic", no_such="1")),
    case("replace-unknown-topic", "AlterConfigs", replace(TOPIC, "$topic", retention_ms="1")),
    case(
        "replace-same-resource-twice",
        "AlterConfigs",
        create(),
        Ask({"resources": [{"resource_type": TOPIC, "resource_name": "$topic", "configs": []}] * 2}, silent=True),
    ),
    case("list-resources-brokers", "ListConfigResources", Ask({"resource_types": [CLIENT_METRICS]})),
    case(
        "list-resources-of-brokers",
        "ListConfigResources",
        Ask({"resource_types": [BROKER]}),
        Ask({"resource_types": [LOGGER]}),
        versions=(1, 1),
    ),
    case("list-resources-groups", "ListConfigResources", Ask({"resource_types": [GROUP]}), versions=(1, 1)),
    case(
        "list-resources-all",
        "ListConfigResources",
        Ask({"resource_types": []}, mask=("config_resources",)),
        versions=(0, 1),
    ),
    case("list-resources-unknown-type", "ListConfigResources", Ask({"resource_types": [99]}), versions=(1, 1)),
)
