"""Changes of configuration: the outcomes and texts below are those that Apache Kafka 4.3.1 gave to the same
requests."""

from __future__ import annotations

import pytest

from kraft.common.config.dynamic.alterations import (
    Alteration,
    altered,
    applied,
    check_logger_alterations,
    check_request,
    check_texts,
    replaced,
)
from kraft.common.config.node.node_config import NodeConfig
from kraft.common.config.node.node_loader import load_node_config
from kraft.common.errors import ApiError, ConfigurationError

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture(scope="module")
def node() -> NodeConfig:
    return load_node_config()


REFUSED_REQUESTS = [
    (
        BROKER,
        "1",
        ("log.retention.hours", SET, "3"),
        42,
        "Cannot update these configs dynamically: [log.retention.hours]",
    ),
    (
        BROKER,
        "",
        ("listeners", SET, "PLAINTEXT://:1"),
        42,
        "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
    ),
    (
        BROKER,
        "1",
        ("num.io.threads", SET, "0"),
        42,
        "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
    ),
    (
        BROKER,
        "1",
        ("num.io.threads", SET, "100"),
        42,
        (
            "Dynamic thread count update validation failed for num.io.threads=100, value should not be greater "
            "than double the current value 8"
        ),
    ),
    (BROKER, "7", ("num.io.threads", SET, "9"), 42, "Unexpected broker id, expected 1, but received 7"),
    (BROKER, "x", ("num.io.threads", SET, "9"), 42, "Node id must be an integer, but it is: x"),
    (BROKER, "1", ("nonsense.key", SET, "9"), 40, "Unknown broker config name: nonsense.key"),
    (TOPIC, "t", ("retention.ms", SET, None), 42, "Null value not supported for : retention.ms"),
    (TOPIC, "", ("retention.ms", SET, "1"), 42, "Default topic resources are not allowed."),
    (GROUP, "", ("consumer.session.timeout.ms", SET, "50000"), 42, "Default group resources are not allowed."),
    (7, "1", ("root", SET, "INFO"), 42, "Unknown resource type 7"),
]


@pytest.mark.parametrize(("resource_type", "name", "alteration", "code", "text"), REFUSED_REQUESTS)
def test_the_broker_check_rejects_with_kafkas_code_and_text(
    resource_type: int, name: str, alteration: tuple[str, int, str | None], code: int, text: str, node: NodeConfig
) -> None:
    with pytest.raises(ApiError) as refused:
        check_request(resource_type, name, [Alteration(*alteration)], node)
    assert (refused.value.code, refused.value.message) == (code, text)


def test_a_key_may_occur_once_in_a_request(node: NodeConfig) -> None:
    with pytest.raises(ApiError, match="Error due to duplicate config keys"):
        check_request(TOPIC, "t", [Alteration("retention.ms", SET, "1"), Alteration("retention.ms", SET, "2")], node)


def test_any_broker_accepts_a_change_for_a_stopped_broker(node: NodeConfig) -> None:
    rates = [
        Alteration("leader.replication.throttled.rate", SET, "1000"),
        Alteration("follower.replication.throttled.rate", DELETE, None),
    ]
    check_request(BROKER, "7", [*rates, Alteration("kraft.broker.desired.state", SET, "maintenance")], node)
    with pytest.raises(ApiError, match="Unexpected broker id"):
        check_request(BROKER, "7", [*rates, Alteration("log.roll.ms", DELETE, None)], node)
    with pytest.raises(ApiError, match="Unexpected broker id"):
        check_request(BROKER, "7", [], node)


def test_the_broker_check_accepts_valid_requests(node: NodeConfig) -> None:
    check_request(
        BROKER, "", [Alteration("log.retention.ms", SET, "7000"), Alteration("log.roll.ms", DELETE, None)], node
    )
    # Values of topics are the controller's to judge.
    check_request(TOPIC, "t", [Alteration("retention.m", SET, "x")], node)


REFUSED_TEXTS = [
    (
        TOPIC,
        "t",
        {"retention.ms": "x"},
        40,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    ),
    (TOPIC, "t", {"retention.ms": ""}, 40, "Invalid value  for configuration retention.ms: Not a number of type LONG"),
    (TOPIC, "t", {"retention.m": "x"}, 40, "Unknown topic config name: retention.m"),
    (
        TOPIC,
        "t",
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
        40,
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
    ),
    (
        GROUP,
        "g",
        {"consumer.session.timeout.ms": "1"},
        40,
        "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
    ),
    (
        GROUP,
        "g",
        {"consumer.heartbeat.interval.ms": "500000"},
        40,
        "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
    ),
    (GROUP, "g", {"x": "1"}, 40, "Unknown group config name: x"),
    (
        GROUP,
        "g",
        {"errors.deadletterqueue.topic.name": "__letters"},
        40,
        "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
    ),
    (
        GROUP,
        "g",
        {"consumer.session.timeout.ms": "x"},
        40,
        "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT",
    ),
    (
        GROUP,
        "g",
        {"streams.num.standby.replicas": "9"},
        40,
        "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
    ),
    (
        METRICS,
        "m",
        {"interval.ms": "1"},
        42,
        "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
    ),
    (METRICS, "m", {"y": "1"}, 42, "Unknown client metrics configuration: y"),
    (METRICS, "", {"interval.ms": "500"}, 42, "Subscription name can't be empty"),
    (METRICS, "m", {"match": "bad"}, 40, "Illegal client matching pattern: bad"),
    (METRICS, "m", {"match": "foo=x"}, 40, "Illegal client matching pattern: foo=x"),
    (METRICS, "m", {"match": "client_id=("}, 40, "Illegal client matching pattern: client_id=("),
    (BROKER, "x", {}, 42, "Unable to parse broker name as a base 10 number."),
    (LOGGER, "1", {}, 42, "Unknown resource type 8"),
]


@pytest.mark.parametrize(("resource_type", "name", "texts", "code", "text"), REFUSED_TEXTS)
def test_the_controller_check_rejects_with_kafkas_code_and_text(
    resource_type: int, name: str, texts: dict[str, str], code: int, text: str, node: NodeConfig
) -> None:
    with pytest.raises(ApiError) as refused:
        check_texts(resource_type, name, texts, node)
    assert (refused.value.code, refused.value.message) == (code, text)


TIERING = {"remote.log.storage.system.enable": "true", "kraft.remote.storage.uri": "file:///objects"}


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"cleanup.policy": "compact"}, "only supports topics with cleanup.policy=delete"),
        ({"cleanup.policy": "compact,delete"}, "only supports topics with cleanup.policy=delete"),
        ({"retention.ms": "5", "local.retention.ms": "6"}, r"local.retention.ms \(6\) must not be more than"),
        ({"retention.bytes": "5", "local.retention.bytes": "-1"}, r"local.retention.bytes \(-1\) must not be more"),
        (
            {"remote.log.copy.disable": "true", "local.retention.ms": "5"},
            "`local.retention.ms` and `retention.ms` must be set to the identical value",
        ),
        (
            {"remote.log.copy.disable": "true", "local.retention.bytes": "5", "retention.bytes": "6"},
            "`local.retention.bytes` and `retention.bytes` must be set to the identical value",
        ),
    ],
)
def test_a_tiered_topic_must_have_consistent_settings(texts: dict[str, str], sentence: str) -> None:
    node = load_node_config(sets=[f"{name}={value}" for name, value in TIERING.items()])
    check_texts(TOPIC, "t", {"remote.storage.enable": "true"}, node)
    check_texts(TOPIC, "t", {"remote.storage.enable": "true", "retention.ms": "5"}, node)
    same = {"remote.log.copy.disable": "true", "retention.ms": "5", "local.retention.ms": "5"}
    check_texts(TOPIC, "t", {"remote.storage.enable": "true", **same}, node)
    check_texts(TOPIC, "t", texts, node)
    with pytest.raises(ApiError, match=sentence):
        check_texts(TOPIC, "t", {"remote.storage.enable": "true", **texts}, node)


def test_a_node_without_a_remote_store_rejects_tiered_topics(node: NodeConfig) -> None:
    with pytest.raises(ApiError, match="Tiered Storage functionality is disabled in the broker"):
        check_texts(TOPIC, "t", {"remote.storage.enable": "true"}, node)
    with pytest.raises(ConfigurationError, match=r"needs kraft\.remote\.storage\.uri: file:///directory"):
        load_node_config(sets=["remote.log.storage.system.enable=true"])


def test_a_remote_storage_class_is_rejected_with_the_key_to_set_instead() -> None:
    name = "remote.log.storage.manager.class.name"
    config = load_node_config(sets=[f"{name}=io.aiven.kafka.tieredstorage.RemoteStorageManager"])
    assert any("set kraft.remote.storage.uri to file:///directory" in warning for warning in config.warnings)


@pytest.mark.parametrize(
    ("resource_type", "texts"),
    [
        (TOPIC, {"retention.ms": "5", "cleanup.policy": ""}),
        (GROUP, {"consumer.session.timeout.ms": "50000", "share.delivery.count.limit": "3"}),
        (METRICS, {"metrics": "*", "interval.ms": "500", "match": "client_id=x"}),
        (BROKER, {"log.retention.ms": "7"}),
    ],
)
def test_the_controller_check_accepts_valid_texts(resource_type: int, texts: dict[str, str], node: NodeConfig) -> None:
    check_texts(resource_type, "1", texts, node)


@pytest.mark.parametrize(
    ("before", "operation", "value", "after"),
    [
        ({}, APPEND, "compact", {"cleanup.policy": "delete,compact"}),
        ({"cleanup.policy": "compact"}, APPEND, "compact,delete", {"cleanup.policy": "compact,delete"}),
        ({"cleanup.policy": "compact"}, APPEND, "compact", {}),
        ({"cleanup.policy": "compact"}, SUBTRACT, "compact", {"cleanup.policy": ""}),
        ({"cleanup.policy": "compact"}, SUBTRACT, "delete", {}),
        ({"cleanup.policy": "compact"}, DELETE, None, {"cleanup.policy": None}),
        ({}, DELETE, None, {}),
        ({"cleanup.policy": "compact"}, SET, "compact", {}),
    ],
)
def test_operations_become_config_changes(
    before: dict[str, str], operation: int, value: str | None, after: dict[str, str | None]
) -> None:
    assert altered(TOPIC, before, [Alteration("cleanup.policy", operation, value)]) == after


def test_only_list_configs_accept_append_and_subtract() -> None:
    with pytest.raises(ApiError, match=r"Can't APPEND to key retention\.ms because its type is not LIST\."):
        altered(TOPIC, {}, [Alteration("retention.ms", APPEND, "1")])
    with pytest.raises(ApiError, match="Unknown operation type 9"):
        altered(TOPIC, {}, [Alteration("retention.ms", 9, "1")])


def test_legacy_alter_configs_deletes_keys_that_are_not_named() -> None:
    before = {"a": "1", "b": "2"}
    changes = replaced(before, {"b": "2", "c": "3"})
    assert changes == {"c": "3", "a": None}
    assert applied(before, changes) == {"b": "2", "c": "3"}


@pytest.mark.parametrize(
    ("alteration", "code", "text"),
    [
        (("root", APPEND, "DEBUG"), 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (("nope", SET, "DEBUG"), 40, "Logger nope does not exist!"),
        (("root", DELETE, None), 42, "Removing the log level of the root logger is not allowed"),
        (
            ("root", SET, "NOPE"),
            40,
            (
                "Cannot set the log level of root to NOPE as it is not a supported log level. Valid log levels "
                "are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
            ),
        ),
    ],
)
def test_log_levels_are_validated(alteration: tuple[str, int, str | None], code: int, text: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_logger_alterations([Alteration(*alteration)], ["root"])
    assert (refused.value.code, refused.value.message) == (code, text)
    check_logger_alterations([Alteration("root", SET, "DEBUG")], ["root"])


def test_a_connection_limit_can_be_set_for_one_listener(node: NodeConfig) -> None:
    name = "listener.name.plaintext.max.connections"
    for resource in ("1", ""):
        check_request(BROKER, resource, [Alteration(name, SET, "5")], node)
        check_texts(BROKER, resource, {name: "5"}, node)
    with pytest.raises(
        ApiError,
        match=r"Invalid value -1 for configuration listener.name.plaintext.max.connections: Value must be at least 0",
    ):
        check_request(BROKER, "1", [Alteration(name, SET, "-1")], node)
    with pytest.raises(ApiError, match=r"Unknown broker config name: listener.name.plaintext.num.partitions"):
        check_request(BROKER, "1", [Alteration("listener.name.plaintext.num.partitions", SET, "5")], node)
    with pytest.raises(ApiError, match=r"Unknown broker config name: listener.name.max.connections"):
        check_texts(BROKER, "1", {"listener.name.max.connections": "5"}, node)


WRONG_COUNTS = [
    "10.0.0.1",
    "10.0.0.1:",
    ":5",
    "10.0.0.1:many",
    "10.0.0.1:-1",
    "h:\u0663",
    "h:\u00b2",
    f"h:{2**31}",
    "h:" + "9" * 5000,
]


@pytest.mark.parametrize("wrong", WRONG_COUNTS)
def test_per_ip_connection_limits_are_validated_before_they_are_in_the_metadata_log(
    wrong: str, node: NodeConfig
) -> None:
    name = "max.connections.per.ip.overrides"
    for text in (wrong, f"10.0.0.2:5,{wrong}"):
        with pytest.raises(ApiError, match="is not host:count") as refused:
            check_texts(BROKER, "", {name: text}, node)
        assert refused.value.code == 40
    check_texts(BROKER, "", {name: f" 10.0.0.2 : 5 ,,::1:0,h:{2**31 - 1}"}, node)
