"""AlterConfigs and IncrementalAlterConfigs: operations, judgement as a whole, and the rules that ELR and cordoned
directories add."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.common.errors import ApiError
from kraft.controller.controls.configuration_control import alter_configs, incremental_alter_configs
from kraft.controller.request_context import ControllerRequestContext
from kraft.metadata.records.clear_elr_record import ClearElrRecord
from kraft.metadata.records.config_record import ConfigRecord
from kraft.metadata.records.feature_level_record import FeatureLevelRecord
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import alter_configs_request as whole
from kraft.protocol.messages import incremental_alter_configs_request as single
from tests.unit.controller.pure_cluster import PureCluster

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
CONTEXT = ControllerRequestContext(1, forwarded=True)


def change(
    cluster: PureCluster, kind: int, name: str, *operations: tuple[str, int, str | None], **request: Any
) -> tuple[int, str | None]:
    configs = [
        single.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in operations
    ]
    resource = single.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    context = request.pop("context", CONTEXT)
    answer = cluster.apply(
        incremental_alter_configs(
            cluster.view, single.IncrementalAlterConfigsRequest(resources=[resource], **request), context
        )
    )
    assert (answer.responses[0].resource_type, answer.responses[0].resource_name) == (kind, name)
    return answer.responses[0].error_code, answer.responses[0].error_message


def texts(cluster: PureCluster, kind: int, name: str) -> dict[str, str]:
    return dict(cluster.image.configs.of(kind, name).items())


def test_a_single_config_key_is_set_deleted_appended_or_subtracted() -> None:
    cluster = PureCluster(1)
    cluster.topic("t", [1])
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert texts(cluster, TOPIC, "t") == {"retention.ms": "5", "cleanup.policy": "delete,compact"}, (
        "APPEND starts from the default"
    )
    assert change(cluster, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, None)) == (
        0,
        None,
    )
    assert texts(cluster, TOPIC, "t") == {"cleanup.policy": "compact"}
    assert change(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert texts(cluster, TOPIC, "t") == {"cleanup.policy": "compact"}


def test_the_last_operation_on_a_config_key_named_twice_applies() -> None:
    cluster = PureCluster(1)
    cluster.topic("t", [1], retention_ms="5")
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "6"), ("retention.ms", SET, "5")) == (0, None)
    assert texts(cluster, TOPIC, "t") == {"retention.ms": "5"}


def test_the_size_of_a_config_value_is_counted_in_bytes() -> None:
    cluster = PureCluster(1)
    code, message = change(cluster, 16, "m", ("match", SET, "client_id=" + "ä" * 16_379))
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG,
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
    )


def test_replacing_a_config_deletes_the_keys_not_given() -> None:
    cluster = PureCluster(1)
    cluster.topic("t", [1], retention_ms="5", segment_ms="9")
    resource = whole.AlterConfigsResource(
        resource_type=TOPIC, resource_name="t", configs=[whole.AlterableConfig(name="retention.ms", value="6")]
    )
    answer = cluster.apply(alter_configs(cluster.view, whole.AlterConfigsRequest(resources=[resource]), CONTEXT))
    assert answer.responses[0].error_code == 0
    assert texts(cluster, TOPIC, "t") == {"retention.ms": "6"}
    resource.configs[0].value = None
    refused = alter_configs(cluster.view, whole.AlterConfigsRequest(resources=[resource]), CONTEXT)
    assert refused.response.responses[0].error_code == ErrorCode.INVALID_REQUEST


def test_validate_only_writes_nothing() -> None:
    cluster = PureCluster(1)
    cluster.topic("t", [1])
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "5"), validate_only=True) == (0, None)
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "x"), validate_only=True)[0] == ErrorCode.INVALID_CONFIG
    assert texts(cluster, TOPIC, "t") == {}


@pytest.mark.parametrize(
    ("kind", "name", "operation", "code", "message"),
    [
        (
            TOPIC,
            "no",
            ("retention.ms", SET, "5"),
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'no' does not exist.",
        ),
        (TOPIC, "", ("retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (TOPIC, "t", ("no.such", SET, "5"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
        (
            TOPIC,
            "t",
            ("retention.ms", APPEND, "5"),
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "t",
            ("retention.ms", SET, None),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            "t",
            ("leader.replication.throttled.replicas", SET, "1:1," * 9000 + "1:1"),
            ErrorCode.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
        (
            BROKER,
            "x",
            ("log.retention.ms", SET, "5"),
            ErrorCode.INVALID_REQUEST,
            "Unable to parse broker name as a base 10 number.",
        ),
        (BROKER, "01", ("log.retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST, "Invalid broker name 01"),
        (BROKER, " 1", ("log.retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST, "Invalid broker name  1"),
        (BROKER, "9", ("log.retention.ms", SET, "5"), ErrorCode.BROKER_ID_NOT_REGISTERED, "No node with id 9 found."),
        (
            GROUP,
            "",
            ("consumer.session.timeout.ms", SET, "46000"),
            ErrorCode.INVALID_REQUEST,
            "Default group resources are not allowed.",
        ),
        (77, "x", ("a", SET, "5"), ErrorCode.UNSUPPORTED_VERSION, "Unknown resource type 77."),
    ],
)
def test_invalid_config_changes_are_refused(
    kind: int, name: str, operation: tuple[str, int, str | None], code: int, message: str
) -> None:
    cluster = PureCluster(1)
    cluster.topic("t", [1])
    before = cluster.image
    assert change(cluster, kind, name, operation) == (code, message)
    assert cluster.image == before


@pytest.mark.parametrize(
    ("key", "value"), [("interval.ms", "1000"), ("metrics", "*"), ("match", "client_id=a.*,client_source_port=[0-9]+")]
)
def test_a_client_metrics_subscription_is_stored_and_its_last_key_can_be_deleted(key: str, value: str) -> None:
    cluster = PureCluster(1)
    assert change(cluster, CLIENT_METRICS, "x", (key, SET, value)) == (0, None)
    assert texts(cluster, CLIENT_METRICS, "x") == {key: value}
    assert change(cluster, CLIENT_METRICS, "x", (key, DELETE, None)) == (0, None)
    assert texts(cluster, CLIENT_METRICS, "x") == {}


def test_a_topic_config_key_without_effect_is_refused_but_keeps_its_existing_value() -> None:
    cluster = PureCluster(1)
    cluster.topic("t", [1])
    code, message = change(cluster, TOPIC, "t", ("preallocate", SET, "true"))
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG,
        "preallocate=true would have no effect: segments always grow as they are written",
    )
    assert change(cluster, TOPIC, "t", ("preallocate", SET, "false"))[0] == 0
    cluster.replay(ConfigRecord(resource_type=TOPIC, resource_name="t", name="preallocate", value="true"))
    assert change(cluster, TOPIC, "t", ("retention.ms", SET, "5"))[0] == 0
    assert change(cluster, TOPIC, "t", ("preallocate", DELETE, None))[0] == 0


def test_a_config_key_without_effect_may_be_set_to_its_default() -> None:
    assert change(PureCluster(1), GROUP, "g", ("share.auto.offset.reset", SET, "latest"))[0] == 0


def test_a_resource_named_twice_is_refused_and_other_resources_are_changed() -> None:
    cluster = PureCluster(1)
    cluster.topic("a", [1])
    cluster.topic("b", [1])
    configs = [single.AlterableConfig(name="retention.ms", config_operation=SET, value="5")]
    resources = [
        single.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
        for name in ("a", "b", "a")
    ]
    answer = cluster.apply(
        incremental_alter_configs(cluster.view, single.IncrementalAlterConfigsRequest(resources=resources), CONTEXT)
    )
    outcomes = [(r.resource_name, r.error_code, r.error_message) for r in answer.responses]
    assert outcomes == [("a", ErrorCode.INVALID_REQUEST, "Duplicate resource."), ("b", 0, None)]
    assert (texts(cluster, TOPIC, "a"), texts(cluster, TOPIC, "b")) == ({}, {"retention.ms": "5"})


def test_a_broker_config_record_is_written_even_when_nothing_changes() -> None:
    cluster = PureCluster(1)
    for _ in range(2):
        configs = [single.AlterableConfig(name="log.retention.ms", config_operation=SET, value="5")]
        resource = single.AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=configs)
        result = incremental_alter_configs(
            cluster.view, single.IncrementalAlterConfigsRequest(resources=[resource]), CONTEXT
        )
        assert [type(record) for record in result.records] == [ConfigRecord]
        cluster.apply(result)


def test_elr_forbids_a_min_isr_that_differs_between_brokers() -> None:
    cluster = PureCluster(1, elr=True)
    cluster.topic("t", [1])
    code, message = change(cluster, BROKER, "1", ("min.insync.replicas", SET, "1"))
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    code, message = change(cluster, BROKER, "", ("min.insync.replicas", DELETE, None))
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )


@pytest.mark.parametrize("level", [1, 0])
@pytest.mark.parametrize(("kind", "name", "cleared"), [(TOPIC, "t", "t"), (BROKER, "", "")])
def test_a_changed_min_isr_clears_the_elr_even_after_elr_was_disabled(
    kind: int, name: str, cleared: str, level: int
) -> None:
    cluster = PureCluster(1, 2, elr=True)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.fence(2)
    assert cluster.partition("t").elr == (2,)
    cluster.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=level))
    configs = [single.AlterableConfig(name="min.insync.replicas", config_operation=SET, value="1")]
    resource = single.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    result = incremental_alter_configs(
        cluster.view, single.IncrementalAlterConfigsRequest(resources=[resource]), CONTEXT
    )
    assert isinstance(result.records[-1], ClearElrRecord)
    assert result.records[-1].topic_name == cleared
    cluster.apply(result)
    assert cluster.partition("t").elr == ()


def test_a_min_isr_change_that_clears_too_many_elrs_for_one_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it goes into one batch: a request that passed with more than fit would end the controller."""
    cluster = PureCluster(1, elr=True)
    monkeypatch.setattr("kraft.controller.controller_result.MAX_RECORDS_PER_USER_OPERATION", 3)
    configs = [single.AlterableConfig(name="min.insync.replicas", config_operation=SET, value="1")]
    for name in ("a", "b"):
        cluster.topic(name, [1])
    resources = [
        single.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs) for name in ("a", "b")
    ]
    with pytest.raises(ApiError) as refused:
        incremental_alter_configs(cluster.view, single.IncrementalAlterConfigsRequest(resources=resources), CONTEXT)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_without_elr_a_changed_min_isr_writes_nothing_else() -> None:
    cluster = PureCluster(1, 2)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    configs = [single.AlterableConfig(name="min.insync.replicas", config_operation=SET, value="1")]
    resource = single.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=configs)
    result = incremental_alter_configs(
        cluster.view, single.IncrementalAlterConfigsRequest(resources=[resource]), CONTEXT
    )
    assert [type(record) for record in result.records] == [ConfigRecord]


def test_a_broker_config_may_only_remove_cordoned_directories() -> None:
    cluster = PureCluster(1)
    cluster.configure(BROKER, "1", cordoned_log_dirs="/a,/b")
    code, message = change(
        cluster, BROKER, "1", ("cordoned.log.dirs", SET, "/a,/c"), context=ControllerRequestContext(1)
    )
    assert code == ErrorCode.INVALID_CONFIG
    assert message == (
        "When updating cordoned.log.dirs via controllers,  the new value must be a subset of the current "
        "configuration value."
    )


@pytest.mark.parametrize(
    ("operations", "is_taken"),
    [
        ([("remote.storage.enable", DELETE, None)], False),
        ([("remote.storage.enable", SET, "false")], False),
        ([("remote.storage.enable", SET, "false"), ("remote.log.delete.on.disable", SET, "false")], False),
        ([("remote.storage.enable", SET, "false"), ("remote.log.delete.on.disable", SET, "true")], True),
        ([("remote.storage.enable", DELETE, None), ("remote.log.delete.on.disable", SET, "true")], True),
    ],
)
def test_disabling_tiering_requires_deletion_of_the_remote_segments(
    operations: list[tuple[str, int, str | None]], is_taken: bool
) -> None:
    """Answers of Apache Kafka 4.3.1."""
    cluster = PureCluster(1)
    cluster.topic("t", [1])
    cluster.replay(ConfigRecord(resource_type=TOPIC, resource_name="t", name="remote.storage.enable", value="true"))
    code, text = change(cluster, TOPIC, "t", *operations)
    if is_taken:
        assert (code, text) == (0, None)
    else:
        assert code == ErrorCode.INVALID_CONFIG
        assert text is not None
        assert text.startswith("It is invalid to disable remote storage without deleting remote data. If you want to")
        assert texts(cluster, TOPIC, "t") == {"remote.storage.enable": "true"}
